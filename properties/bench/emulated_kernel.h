// Attention kernels in miniature: one row of attention as a correct kernel would compute it, in its
// own precision, order of summation and placement of roundings; and the same with one seeded fault.
// They run in-process and share no code with the oracle, so that attest_bench can show on a million
// rows that the oracle is silent on the former and speaks on the latter.
#ifndef ATTEST_BENCH_EMULATED_KERNEL_H_
#define ATTEST_BENCH_EMULATED_KERNEL_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "impl/attention/numerics.h"
#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"

namespace attest {

enum class Passes {
  kOnline,      // one pass; sums are rescaled whenever the maximum rises
  kTwoPass,     // maximum and sum of weights first, P V after
  kNormalised,  // as kTwoPass, and P is divided by its sum before it multiplies V
};
enum class Summation {
  kSequential,
  kFused,      // sequential, each product and addition rounded once
  kPairwise,   // a balanced tree
  kBlockUnit,  // sixteen products and the accumulator aligned, truncated and added at once
  kWide,       // in twice the precision, rounded at the end
};
enum class ScaleAt {
  kScores,
  kQuery,
  kStoredQuery,  // scale * q rounded to the element type
  kExponent,     // joined with log2(e) to one constant: exp2(s c - m c)
};

// How a correct kernel computes. Accumulates in f32, in f64 for f64. exp(0) is exactly 1 in all.
struct KernelVariant {
  std::string_view name;
  Passes passes = Passes::kOnline;
  int64_t tile = 0;    // keys between two looks at the maximum; 0 = all
  int64_t splits = 1;  // contiguous parts, merged by exp(lse_i - lse), not renormalised
  bool reversed = false;
  bool sums_by_tile = false;  // each tile is summed from zero and then added
  Summation summation = Summation::kSequential;
  bool truncates_sums = false;  // additions drop bits instead of rounding
  ScaleAt scale_at = ScaleAt::kScores;
  bool exp_by_exp2 = false;  // exp(x) as exp2(x log2(e))
  double exp_noise_ulp = 0;  // pseudo-random error of exp, at most so much
  double exp_lean_ulp = 0;   // constant error of exp
  bool flushes_exp = false;  // a subnormal exp is 0
  bool sums_rounded_weights = false;
  bool keeps_weights = false;  // weights are not rounded to the element type
  bool stores_scores = false;  // scores are rounded to the element type
  bool truncates_output = false;
  bool reciprocal = false;  // out = acc * (1 / l)
};

// At least twenty, no two alike.
const std::vector<KernelVariant>& CorrectVariants();

// The variant of that name; it must be one of CorrectVariants().
const KernelVariant& VariantNamed(std::string_view name);

// What the variant has to declare for tensors of `dtype`, starting from `base`.
NumericsProfile DeclaredBy(const KernelVariant& variant, DType dtype, NumericsProfile base);

enum class FaultKind {
  kNone,
  kDropKey,
  kRepeatKey,
  kFutureKey,           // the first key that nothing but causality hides is seen
  kLastKeyOfFullTiles,  // rows of 64 t keys lose the last
  kScale,               // scale * (1 + size)
  kAccumulatorNotRescaled,
  kSumNotRescaled,
  kOneRescaleMissing,  // of the accumulator, at one change of the maximum
  kNarrowScoreSums,    // q k added up in 16 bits (f32 for f64)
  kNarrowValueSums,    // P V
  kNarrowWeightSums,   // l
  kPaddedKeysCounted,  // `size` keys of score 0 in l
  kSwappedValues,      // two rows of V
  kCoarseWeights,      // f16 for f32, bf16 for f16, 6 bits for bf16, f32 for f64
  kExpError,           // exp * (1 + size), exp(0) too
  kValueRowOff,        // one row of V * (1 + size)
  kCoarseScores,       // stored in the element type; q and k in tf32 for f32; f32 for f64
  kWrongLog2E,         // log2(e) = 1.4427
  kTruncatedWeights,   // P of f16 and bf16 cut, not rounded
  kTruncatedOutput,
  kMaxStartsAtZero,  // not at -inf
};

struct Fault {
  FaultKind kind = FaultKind::kNone;
  double size = 0;
  uint64_t seed = 0;  // which key, where one is chosen: by row
};

struct EmulatedRow {
  std::vector<double> out;  // [value_dim], rounded to the problem's dtype
  double lse = 0;           // rounded to f32, f64 for f64; natural log

  friend bool operator==(const EmulatedRow&, const EmulatedRow&) = default;
};

// One row of a valid problem whose scale is positive. An empty row is 0, its lse -inf.
EmulatedRow EmulateRow(const Problem& problem, const Inputs& inputs, const Row& row,
                       const KernelVariant& variant, const Fault& fault = {});

// `value` cut to `dtype`, towards zero.
double TruncateTo(DType dtype, double value);

}  // namespace attest

#endif  // ATTEST_BENCH_EMULATED_KERNEL_H_
