// The arithmetic a kernel declares: what the derived error bound (impl/reference/bound.h) forgives.
// Everything here is a promise about roundings, none about conventions. A kernel whose results lie
// outside its profile fails; the finding says which wider declaration would cover them.
#ifndef ATTEST_ATTENTION_NUMERICS_H_
#define ATTEST_ATTENTION_NUMERICS_H_

#include <cstdint>

#include "impl/attention/dtype.h"

namespace attest {

// Where the scale multiplies. In the accumulator: q, the products or the exponent, in any order. In
// storage: scale * q is rounded to the element type first.
enum class ScalePlacement { kAccumulator, kStorage };
enum class OutputRounding { kNearest, kTruncate };

// For one element type of q, k, v and out. The fields are the JSON keys of `numerics`.
struct NumericsProfile {
  DType accumulate = DType::kF32;   // type of products, softmax and sums
  DType scores = DType::kF32;       // type that a score is stored in before the softmax
  DType probability = DType::kF32;  // type that a weight is rounded to before it multiplies V
  ScalePlacement scale_placement = ScalePlacement::kAccumulator;
  OutputRounding output_rounding = OutputRounding::kNearest;
  double exp_ulp = 4;         // error of exp, in ulp of `accumulate`; exp(0) is exactly 1
  bool flush_to_zero = true;  // what is below the least normal may become zero
  bool truncating_accumulators = false;  // sums drop bits instead of rounding (tensor cores)
  bool lse_of_rounded_weights =
      false;  // the sum in the lse is over weights rounded to `probability`
  int64_t summation_block =
      0;  // keys are summed in blocks of so many, then the blocks; 0 = any order

  friend bool operator==(const NumericsProfile&, const NumericsProfile&) = default;
};

// The published default: everything in f32 (in f64 for f64), but for the weights of f16 and bf16,
// which are rounded to that type before they multiply V, as every fused kernel for matrix units does.
NumericsProfile DefaultNumerics(DType dtype);

// Half an ulp of 1 of one step of the declared accumulation: the `u` of the derivation.
double AccumulationRoundoff(const NumericsProfile& profile);

}  // namespace attest

#endif  // ATTEST_ATTENTION_NUMERICS_H_
