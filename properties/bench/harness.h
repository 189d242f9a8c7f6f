// The table of `attest_bench harness`: what a case costs stage by stage, and how many a second are tried in this
// process and through the worker. Caller: main.cc.
#ifndef ATTEST_BENCH_HARNESS_H_
#define ATTEST_BENCH_HARNESS_H_

#include <cstdint>

namespace attest {

struct HarnessOptions {
  int64_t cases = 20;  // of each property
  uint64_t seed = 1;
};

// Prints CPU microseconds a case, of the cases that `--plan ci` draws for kernel tiled and of the small ones
// among them. False where the kernel cannot be opened.
bool PrintHarness(const HarnessOptions& options);

}  // namespace attest

#endif  // ATTEST_BENCH_HARNESS_H_
