// The table of correct kernels, and what each has to declare.
#include <algorithm>

#include "properties/bench/emulated_kernel.h"

namespace attest {

const std::vector<KernelVariant>& CorrectVariants() {
  using S = Summation;
  static const std::vector<KernelVariant> kVariants = {
      {.name = "naive"},
      {.name = "naive, 1/l", .reciprocal = true},
      {.name = "naive reversed", .reversed = true},
      {.name = "two-pass", .passes = Passes::kTwoPass, .tile = 1},
      {.name = "P normalised first", .passes = Passes::kNormalised},
      {.name = "pairwise", .summation = S::kPairwise},
      {.name = "fused", .tile = 32, .summation = S::kFused},
      {.name = "online 1", .tile = 1},
      {.name = "online 8", .tile = 8},
      {.name = "online 16", .tile = 16},
      {.name = "online 32", .tile = 32},
      {.name = "online 64", .tile = 64},
      {.name = "online 16 reversed", .tile = 16, .reversed = true},
      {.name = "scale on Q", .tile = 64, .scale_at = ScaleAt::kQuery},
      {.name = "scale in exp2", .tile = 64, .scale_at = ScaleAt::kExponent, .reciprocal = true},
      {.name = "scale in exp2, tile 1", .tile = 1, .scale_at = ScaleAt::kExponent},
      {.name = "exp by exp2", .tile = 32, .exp_by_exp2 = true},
      {.name = "exp off by 3.4 ulp", .tile = 16, .exp_noise_ulp = 3.4},
      {.name = "exp leans by 3 ulp", .tile = 16, .exp_lean_ulp = 3},
      {.name = "exp leans by -3 ulp, tile 1", .tile = 1, .exp_lean_ulp = -3},
      {.name = "split in 4", .tile = 32, .splits = 4},
      {.name = "split in 7", .tile = 16, .splits = 7, .exp_noise_ulp = 3.4},
      {.name = "wide sums", .tile = 64, .summation = S::kWide},
      // From here on a kernel has something to declare.
      {.name = "exp flushes", .tile = 64, .flushes_exp = true},
      {.name = "l of rounded P", .tile = 64, .sums_rounded_weights = true},
      {.name = "Q scaled in storage", .tile = 64, .scale_at = ScaleAt::kStoredQuery},
      {.name = "Q scaled in storage, naive", .scale_at = ScaleAt::kStoredQuery},
      {.name = "truncating sums", .tile = 64, .truncates_sums = true},
      {.name = "matrix unit", .tile = 64, .summation = S::kBlockUnit},
      {.name = "matrix unit, split in 4", .tile = 16, .splits = 4, .summation = S::kBlockUnit},
      {.name = "blocks of 64", .tile = 64, .sums_by_tile = true},
      {.name = "P not rounded", .tile = 64, .keeps_weights = true},
      {.name = "S stored", .stores_scores = true},
      {.name = "output truncated", .tile = 64, .truncates_output = true},
  };
  return kVariants;
}

const KernelVariant& VariantNamed(std::string_view name) {
  const auto& all = CorrectVariants();
  return *std::find_if(all.begin(), all.end(),
                       [&](const KernelVariant& variant) { return variant.name == name; });
}

NumericsProfile DeclaredBy(const KernelVariant& variant, DType dtype, NumericsProfile base) {
  if (variant.flushes_exp) base.flush_to_zero = true;
  if (variant.sums_rounded_weights) base.lse_of_rounded_weights = true;
  if (variant.scale_at == ScaleAt::kStoredQuery) base.scale_placement = ScalePlacement::kStorage;
  if (variant.truncates_sums || variant.summation == Summation::kBlockUnit) {
    base.truncating_accumulators = true;
  }
  if (variant.sums_by_tile) base.summation_block = variant.tile;
  if (variant.keeps_weights) base.probability = base.accumulate;
  if (variant.stores_scores) base.scores = dtype;
  if (variant.truncates_output) base.output_rounding = OutputRounding::kTruncate;
  return base;
}

}  // namespace attest
