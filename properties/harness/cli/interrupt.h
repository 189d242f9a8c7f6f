// Ctrl-C and kill: the run ends at the next case, with a report of what is there, and no worker or
// half a file stays behind. A second signal ends the process at once.
#ifndef ATTEST_HARNESS_CLI_INTERRUPT_H_
#define ATTEST_HARNESS_CLI_INTERRUPT_H_

#include <atomic>

namespace attest {

// Call once, first thing in main. Also turns writes to a closed pipe into errors.
void CatchSignals();

// True from the first SIGINT, SIGTERM or SIGHUP on.
const std::atomic<bool>& Interrupted();

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_INTERRUPT_H_
