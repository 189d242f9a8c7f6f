// From the element type of a call, known at run time, to a C++ type, known at compile time: how a
// kernel written as a template is entered. f16 and bf16 are Eigen's; lse and all sums of a kernel
// use AccumulatorOf<T>.
#ifndef ATTEST_ABI_FLOAT_TYPES_H_
#define ATTEST_ABI_FLOAT_TYPES_H_

#include <Eigen/Core>
#include <type_traits>

#include "impl/attention/dtype.h"

namespace attest {

// double for f64, float for the other three.
template <typename T>
using AccumulatorOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls body(T{}) with the type that stores `dtype`. A dtype that is no floating type does nothing:
// ParseCall never lets one through.
template <typename Body>
void WithFloatType(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kF64:
      return body(double{});
    case DType::kF16:
      return body(Eigen::half{});
    case DType::kBF16:
      return body(Eigen::bfloat16{});
    case DType::kBool:
    case DType::kI64:
    case DType::kE4M3:
    case DType::kE5M2:
      return;
  }
}

}  // namespace attest

#endif  // ATTEST_ABI_FLOAT_TYPES_H_
