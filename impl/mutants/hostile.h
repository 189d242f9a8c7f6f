// The table of misdeeds: what the kernel `hostile` does beside computing right attention, one
// variant a misdeed (`attest check hostile:fork`). `attest list` prints it, the end-to-end tests
// demand the cause that stands here, and the sandbox's own tests use the same misdeeds through a
// plug-in that takes any shapes. They are meant for a worker process and for nothing else.
#ifndef ATTEST_MUTANTS_HOSTILE_H_
#define ATTEST_MUTANTS_HOSTILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "impl/abi/attest/kernel.h"

namespace attest {

// What a misdeed may look at and keep, beside the call. One a created kernel.
struct HostileState {
  int32_t role = 0;                     // option `role`: an attest_role; 0 = the misdeed's choice
  int64_t milliseconds = 3000;          // option `ms`, for those that take time
  int64_t calls = 0;                    // so far, this one included
  std::optional<attest_status> answer;  // set before the call: return this, compute nothing
  std::vector<std::byte> kept;          // from before the call, or from the call before
  std::shared_ptr<void> own;            // whatever else has to live as long as the kernel
};

using HostileAct = void (*)(attest_call& call, HostileState& state);

struct Misdeed {
  std::string_view id;    // the variant
  std::string_view does;  // one clause
  // The causes (see judge/verdict.h) and classes of causes that a finding may rightly name, separated by |. Empty where
  // nothing is due: the kernel's results are right, and the misdeed must do no harm.
  std::string_view cause;
  HostileAct before;  // done before attention is computed; nullptr = nothing
  HostileAct after;   // done after it
};

// Every misdeed.
std::span<const Misdeed> Misdeeds();

// nullptr when the id is unknown.
const Misdeed* FindMisdeed(std::string_view id);

// A kernel with a misdeed: option `variant` names it (none: it behaves), `every=N` has it done in
// each Nth call only, `role` and `ms` are HostileState's.
class Hostile {
 public:
  // The error is one line: an option that is unknown or no number, or a variant without a misdeed.
  static std::optional<std::string> Read(const attest_create_info& info, Hostile* hostile);

  // Calls `compute`, which returns a status, with the misdeed around it.
  template <typename Compute>
  attest_status Forward(attest_call& call, Compute&& compute) {
    const std::lock_guard lock(mutex_);  // calls may come from several threads
    ++state_.calls;
    const bool acts = misdeed_ != nullptr && state_.calls % every_ == 0;
    if (acts && misdeed_->before != nullptr) misdeed_->before(call, state_);
    if (state_.answer) return *state_.answer;
    const attest_status status = compute();
    if (acts && misdeed_->after != nullptr && status == ATTEST_OK) misdeed_->after(call, state_);
    return status;
  }

 private:
  std::optional<std::string> Set(std::string_view key, std::string_view value);

  const Misdeed* misdeed_ = nullptr;
  int64_t every_ = 1;
  std::mutex mutex_;
  HostileState state_;
};

}  // namespace attest

#endif  // ATTEST_MUTANTS_HOSTILE_H_
