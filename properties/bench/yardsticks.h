// What kernels are measured against: loops and matrix products that do nothing else. All run on the
// calling thread alone, in one go, and say how much they have done. Caller: kernels.cc.
#ifndef ATTEST_BENCH_YARDSTICKS_H_
#define ATTEST_BENCH_YARDSTICKS_H_

#include <span>

namespace attest {

// Fused multiply-adds between registers, in as many chains as it takes; the widest vectors the machine
// has. Returns the number of floating-point operations.
double RunFmaPeak();

// Adds the floats up; their number is a multiple of 64. Returns the bytes read.
double RunReading(std::span<const float> data);

// Called once, before any library is loaded that may load OpenBLAS.
void PrepareYardsticks();

// A product of two float matrices of 512 by 512. Both return the number of operations; that of OpenBLAS
// 0 where its library (libopenblas.so.0) is not found.
double RunEigenProduct();
double RunOpenBlasProduct();

}  // namespace attest

#endif  // ATTEST_BENCH_YARDSTICKS_H_
