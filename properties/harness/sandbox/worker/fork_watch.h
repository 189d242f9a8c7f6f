// Sees what processes a kernel has left running: copies of the worker, which hold its memory and can
// write to the tensors of later calls. A program that the kernel started (a compiler, say) is none.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_FORK_WATCH_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_FORK_WATCH_H_

#include <sys/types.h>

#include <set>

namespace attest {

class ForkWatch {
 public:
  // Has orphans come to this process, so that a daemon is seen too.
  ForkWatch();

  // How many copies of this process run now that did not at the last call. Those that are about to end,
  // or to become another program, are given a moment. One system call where there are no children.
  int CountNew();

 private:
  std::set<pid_t> known_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_FORK_WATCH_H_
