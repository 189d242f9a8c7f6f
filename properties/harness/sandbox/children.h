// The children of a process, as /proc shows them: to end what a kernel has forked, and to see that it
// has. Linux keeps no other list that every build of it offers.
#ifndef ATTEST_HARNESS_SANDBOX_CHILDREN_H_
#define ATTEST_HARNESS_SANDBOX_CHILDREN_H_

#include <sys/types.h>

#include <optional>
#include <vector>

namespace attest {

struct ProcessState {
  char state = 0;  // 'Z' = has ended and waits to be reaped
  pid_t parent = 0;
  pid_t session = 0;
};

// nullopt where there is no such process.
std::optional<ProcessState> StateOf(pid_t pid);

// Direct children of a process, zombies included.
std::vector<pid_t> ChildrenOf(pid_t parent);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_CHILDREN_H_
