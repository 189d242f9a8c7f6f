// The tables of `attest_bench kernels`: how fast kernels are beside what the machine can do, and beside
// each other. Caller: main.cc.
#ifndef ATTEST_BENCH_KERNELS_H_
#define ATTEST_BENCH_KERNELS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace attest {

struct KernelsOptions {
  int64_t max_len = 8192;          // leaves longer shapes out
  std::vector<int> threads{1, 2};  // each in a table of its own
  std::vector<std::string> dtypes{"f32", "bf16"};
  double seconds = 0.05;  // of each measurement
  int repetitions = 5;    // of each measurement, in random order; the best counts
};

// Prints, by shape, GFLOP/s over visible pairs (of decoding GB/s of keys and values) of the yardsticks
// and of every kernel that is installed, and before them the memory that calls take beside their
// tensors. False where a kernel of ours fails. This process has started no thread yet.
bool PrintKernels(const KernelsOptions& options);

}  // namespace attest

#endif  // ATTEST_BENCH_KERNELS_H_
