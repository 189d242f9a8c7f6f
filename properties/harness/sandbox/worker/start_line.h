// Where threads wait for one another, so that what they do next overlaps: all go on when the last has
// come. They spin, for a sleeping thread wakes up later than a small call takes.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_START_LINE_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_START_LINE_H_

#include <atomic>
#include <cstddef>
#include <thread>

namespace attest {

class StartLine {
 public:
  explicit StartLine(size_t runners) : missing_(runners) {}

  // Each runner calls it once; false = the start was called off.
  bool Wait() {
    missing_.fetch_sub(1);
    while (missing_.load() > 0 && !called_off_.load()) std::this_thread::yield();
    return !called_off_.load();
  }

  // Lets those go that wait for a runner who will never come.
  void CallOff() { called_off_.store(true); }

 private:
  std::atomic<size_t> missing_;
  std::atomic<bool> called_off_{false};
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_START_LINE_H_
