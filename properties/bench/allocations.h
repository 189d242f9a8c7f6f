// Counts what this process asks malloc for, in whatever library and thread. The program's own malloc,
// calloc and the like, which do no more than count, take the place of the C library's.
#ifndef ATTEST_BENCH_ALLOCATIONS_H_
#define ATTEST_BENCH_ALLOCATIONS_H_

#include <cstdint>

namespace attest {

struct Allocations {
  int64_t count = 0;
  int64_t bytes = 0;
};

void StartCountingAllocations();
// Since the start. Both -1 in a build with a sanitizer, whose malloc is not ours to replace.
Allocations StopCountingAllocations();

}  // namespace attest

#endif  // ATTEST_BENCH_ALLOCATIONS_H_
