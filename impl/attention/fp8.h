// The two 8-bit floating formats (OCP 8-bit Floating Point Specification, revision 1.0): e4m3 has no
// infinities and one NaN, e5m2 is a short f16. dtype.h offers them beside the others.
#ifndef ATTEST_ATTENTION_FP8_H_
#define ATTEST_ATTENTION_FP8_H_

#include <cstdint>

#include "impl/attention/dtype.h"

namespace attest {

// The value of a bit pattern. `format` must satisfy IsFp8.
double Fp8Value(DType format, uint8_t bits);

// The nearest pattern, ties to even. Beyond the largest finite value e5m2 overflows to infinity and
// e4m3 to NaN.
uint8_t Fp8Bits(DType format, double value);

}  // namespace attest

#endif  // ATTEST_ATTENTION_FP8_H_
