// How long a call may take, by what the calls before it took. Part of the session, which waits.
#ifndef ATTEST_HARNESS_SANDBOX_DEADLINES_H_
#define ATTEST_HARNESS_SANDBOX_DEADLINES_H_

#include <algorithm>
#include <chrono>

namespace attest {

class Deadlines {
 public:
  using milliseconds = std::chrono::milliseconds;

  // `usual` is a call's, SessionOptions::deadline.
  explicit Deadlines(milliseconds usual) : usual_(usual) {}

  // For loading: a kernel that has just been loaded relocates, plans and allocates. So may it in its first calls.
  milliseconds ForFirst() const { return usual_ * kFirstCallFactor; }

  milliseconds ForCall() const {
    if (!settled_) return ForFirst();
    const milliseconds limit =
        hurried_ ? std::clamp(slowest_ * kHurriedFactor, usual_ / kHurriedPart, usual_) : usual_;
    return is_fresh_ ? std::clamp(first_took_ * kRestartFactor, limit, ForFirst()) : limit;
  }

  void NoteStart() { is_fresh_ = true; }
  void NoteAnswer(milliseconds took) {
    if (!settled_) {
      first_took_ = took;
    } else if (!is_fresh_) {
      slowest_ = std::max(slowest_, took);
    }
    settled_ = true;
    is_fresh_ = false;
  }
  // Who hangs once is not given the time of a first call again.
  void NoteHang() { settled_ = true; }
  void SetHurried(bool hurried) { hurried_ = hurried; }

 private:
  static constexpr int kFirstCallFactor = 10;
  // The first call after a restart may take longer too, though not much longer than the first of all did.
  static constexpr int kRestartFactor = 4;
  // While hurried: times the slowest answered call, and at least this part of the deadline.
  static constexpr int kHurriedFactor = 20;
  static constexpr int kHurriedPart = 8;

  milliseconds usual_;
  bool settled_ = false;  // some call has been answered: the slow start is over
  bool is_fresh_ = true;  // the worker at hand has answered none yet
  bool hurried_ = false;
  milliseconds first_took_{0};  // the first call of all
  milliseconds slowest_{0};     // the slowest answered one beside it
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_DEADLINES_H_
