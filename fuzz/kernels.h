// The kernels that a fuzz target judges, opened by the names that users give them.
#ifndef ATTEST_FUZZ_KERNELS_H_
#define ATTEST_FUZZ_KERNELS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/runner/call_runner.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

struct FuzzedKernel {
  std::string name;  // as on the command line: "tiled?tile=16"
  Contract contract;
  std::unique_ptr<KernelSession> session;  // where the runner needs one
  std::unique_ptr<CallRunner> runner;
};

// The kernel that the environment variable ATTEST_FUZZ_KERNEL names, else those of `usual`.
// `tiled`, `reference` and `mutant` are linked in; another shared library is loaded into this
// process, whose fuzzer then sees its coverage if it is instrumented. What cannot be loaded, and
// every kernel where ATTEST_FUZZ_ISOLATE=1 is set, runs in a worker. A kernel that cannot be opened
// ends the process with exit status 3 and one line, for nothing can be fuzzed.
// A kernel that crashes in this process takes it down; the input that did it, given to the same
// program with ATTEST_FUZZ_ISOLATE=1, becomes a finding with a case.
std::vector<FuzzedKernel> OpenKernels(const std::vector<std::string>& usual);

// One line to stderr, exit status 3.
[[noreturn]] void GiveUp(std::string_view message);

}  // namespace attest

#endif  // ATTEST_FUZZ_KERNELS_H_
