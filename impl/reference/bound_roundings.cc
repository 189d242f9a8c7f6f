#include "impl/reference/bound_roundings.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/reference/extended_reference.h"

namespace attest {
namespace {

bool Narrower(DType a, DType b) {
  return TraitsOf(a).unit_roundoff > TraitsOf(b).unit_roundoff;
}

bool IsPowerOfTwo(double x) {
  int exponent = 0;
  return std::abs(std::frexp(x, &exponent)) == 0.5;
}

// What underflow may lose of a value that is rounded to `dtype`. Flags that flush f32 leave the
// subnormals of f16 alone (they are normal f32 numbers), unless f16 is what is computed in.
double Lost(DType dtype, const NumericsProfile& profile) {
  const FormatTraits traits = TraitsOf(dtype);
  const bool flushes =
      profile.flush_to_zero && traits.min_normal <= TraitsOf(profile.accumulate).min_normal;
  return flushes ? traits.min_normal : traits.min_subnormal / 2;
}

}  // namespace

double Gamma(double n, double u) {
  const double x = n * u;
  if (x < 0.01) return x * (1 + 1.02 * x);  // not below x / (1 - x), and no division
  return x < 1 ? x / (1 - x) : std::numeric_limits<double>::infinity();
}

Roundings::Roundings(const Problem& p, const NumericsProfile& profile) {
  const FormatTraits sum = TraitsOf(profile.accumulate), element = TraitsOf(p.dtype);
  const double directed = profile.output_rounding == OutputRounding::kTruncate ? 2 : 1;
  u = AccumulationRoundoff(profile);
  biased = profile.truncating_accumulators;
  exp_error = profile.exp_ulp * 2 * sum.unit_roundoff;
  // A whole subnormal: products and sums may truncate there.
  tau = profile.flush_to_zero ? sum.min_normal : sum.min_subnormal;
  abs_scale = std::abs(p.EffectiveScale());
  score_underflow = std::max(kTiny, tau * std::max(1.0, abs_scale));
  weight_underflow = kLostRoundings * tau;

  const bool stores_scores = Narrower(profile.scores, profile.accumulate);
  u_score = stores_scores ? TraitsOf(profile.scores).unit_roundoff : 0;
  score_lost = stores_scores ? Lost(profile.scores, profile) : 0;
  score_range = stores_scores ? TraitsOf(profile.scores).max_finite : sum.max_finite;

  const bool scales_query = profile.scale_placement == ScalePlacement::kStorage;
  const bool rounds_query = scales_query && Narrower(p.dtype, profile.accumulate);
  u_query = rounds_query && !IsPowerOfTwo(p.EffectiveScale()) ? element.unit_roundoff : 0;
  query_lost = rounds_query ? Lost(p.dtype, profile) : 0;
  query_range = scales_query ? std::min(element.max_finite, sum.max_finite) : sum.max_finite;

  const bool rounds_weights = Narrower(profile.probability, profile.accumulate);
  u_weight = rounds_weights ? TraitsOf(profile.probability).unit_roundoff : 0;
  weight_normal = rounds_weights ? TraitsOf(profile.probability).min_normal : 0;
  weight_lost = rounds_weights ? Lost(profile.probability, profile) : 0;
  rounded_lse = profile.lse_of_rounded_weights;

  const bool narrow_out = Narrower(p.dtype, profile.accumulate);
  u_out = narrow_out ? directed * element.unit_roundoff : (directed - 1) * sum.unit_roundoff;
  out_lost = narrow_out ? directed * element.min_subnormal / 2 : 0;
  out_range = std::min(element.max_finite, sum.max_finite);
  u_lse = Narrower(p.LseDType(), profile.accumulate) ? TraitsOf(p.LseDType()).unit_roundoff : 0;
  input_roundings = Narrower(profile.accumulate, p.dtype) ? 1 : 0;
  summation_block = profile.summation_block;
  range = sum.max_finite;
  extended_reference = NeedsExtendedReference(profile);
}

double Roundings::Depth(double keys) const {
  if (summation_block == 0) return keys;
  const auto block = static_cast<double>(summation_block);
  return std::min(keys, block + std::ceil(keys / block));
}

double Roundings::StoreError(double size) const {
  return u_out == 0 ? 0 : HalfUlp(u_out, out_lost, size);
}

double Roundings::ReferenceError(double value, double size) const {
  if (extended_reference) return 0x1p-53 * std::abs(value) + 0x1p-64 * size;
  return 1e-13 * size;
}

}  // namespace attest
