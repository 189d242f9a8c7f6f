// What memory a call of a kernel takes beside its tensors. Caller: kernels.cc, before this process has
// loaded any kernel or started a thread, for each measurement is made in a fork.
#ifndef ATTEST_BENCH_KERNEL_MEMORY_H_
#define ATTEST_BENCH_KERNEL_MEMORY_H_

#include <cstdint>
#include <string>

#include <tl/expected.hpp>

#include "impl/attention/problem.h"

namespace attest {

struct CallMemory {
  double resident = 0;   // MiB that a first call adds at its peak: scratch, stacks, code
  double allocated = 0;  // MiB that a second call asks malloc for, all in all
  int64_t allocations =
      0;  // how often; both negative in a build with a sanitizer, which has malloc
};

// Of the kernel, named as on the command line. An error says why it cannot take the problem, or that
// loading it and two calls take too long.
tl::expected<CallMemory, std::string> MeasureMemory(const std::string& kernel, int threads,
                                                    const Problem& problem, const Inputs& inputs);

}  // namespace attest

#endif  // ATTEST_BENCH_KERNEL_MEMORY_H_
