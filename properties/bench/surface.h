// The table of `attest_bench surface`: which property exercises which feature of the problem space, counted
// over the cases that the generator draws inside everything. Caller: main.cc.
#ifndef ATTEST_BENCH_SURFACE_H_
#define ATTEST_BENCH_SURFACE_H_

#include <cstdint>

namespace attest {

struct SurfaceOptions {
  int64_t cases = 2000;  // drawn for each property
  uint64_t seed = 1;
};

// Prints the table. False where a property exercises no feature, or a feature is exercised by no
// property: an empty row or column.
bool PrintSurface(const SurfaceOptions& options);

}  // namespace attest

#endif  // ATTEST_BENCH_SURFACE_H_
