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

constexpr double kLog2E = 1.4426950408889634;

}  // namespace

Roundings::Roundings(const Problem& p, const NumericsProfile& profile) {
  const FormatTraits sum = TraitsOf(profile.accumulate);
  u = AccumulationRoundoff(profile);
  biased = profile.truncating_accumulators;
  exp_error = profile.exp_ulp * 2 * sum.unit_roundoff;
  // A whole subnormal: products and sums may truncate there.
  tau = profile.flush_to_zero ? sum.min_normal : sum.min_subnormal;
  range = sum.max_finite;
  // Below half the least subnormal; 1 for the roundings of exp and of what it is taken of.
  vanishing_gap = 1 - std::log(sum.min_subnormal / 2);
  summation_block = profile.summation_block;
  extended_reference = NeedsExtendedReference(profile);
  StoreScores(p, profile);
  CountScoreRoundings(p, profile);
  StoreWeights(profile);
  CountValueRoundings(p);
  StoreOutputs(p, profile);
}

void Roundings::StoreScores(const Problem& p, const NumericsProfile& profile) {
  const FormatTraits sum = TraitsOf(profile.accumulate), element = TraitsOf(p.dtype);
  const bool stores_scores = Narrower(profile.scores, profile.accumulate);
  u_score = stores_scores ? TraitsOf(profile.scores).unit_roundoff : 0;
  score_lost = stores_scores ? Lost(profile.scores, profile) : 0;
  score_range = stores_scores ? TraitsOf(profile.scores).max_finite : sum.max_finite;

  const bool scales_query = profile.scale_placement == ScalePlacement::kStorage;
  const bool rounds_query = scales_query && Narrower(p.dtype, profile.accumulate);
  // An 8-bit value times its scale is in general no value of the element type.
  const bool is_exact = IsPowerOfTwo(p.EffectiveScale()) && !p.fp8;
  u_query = rounds_query && !is_exact ? element.unit_roundoff : 0;
  query_lost = rounds_query ? Lost(p.dtype, profile) : 0;
  query_range = scales_query ? std::min(element.max_finite, sum.max_finite) : sum.max_finite;
}

bool Roundings::ParameterMayOverflow(const Problem& p, int64_t q_head) const {
  const double most = std::min(range, score_range) * (1 - 0x1p-6);
  if (abs_scale > query_range * (1 - 0x1p-6)) return true;
  if (softcap > 0 && std::max(softcap, 1 / softcap) > most) return true;
  return p.alibi_slopes && std::abs((*p.alibi_slopes)[static_cast<size_t>(q_head)]) > most;
}

void Roundings::CountScoreRoundings(const Problem& p, const NumericsProfile& profile) {
  const auto dim = static_cast<double>(p.head_dim);
  const auto rounds = [&](DType type) { return Narrower(profile.accumulate, type); };
  const bool has_head_values = p.alibi_slopes || p.sinks;
  const bool rounds_inputs = rounds(p.dtype) || (p.bias && rounds(p.BiasDType())) ||
                             (has_head_values && rounds(p.LseDType()));
  input_roundings = rounds_inputs ? 1 : 0;
  abs_scale = std::abs(p.EffectiveScale());
  score_roundings = dim + kScoreRoundings + 2 * input_roundings;
  score_products = dim + 2;
  score_underflow = std::max(kTiny, tau * std::max(1.0, abs_scale));
  product_reach = std::max({1.0, abs_scale, abs_scale * kLog2E});
  stored_reach = std::max(1.0, abs_scale);
  softcap = p.softcap;
  cap_error = softcap * (exp_error + 2 * u + tau + score_lost);
  alibi_tilt = 0;
  if (p.alibi_slopes) {
    score_roundings += kAlibiRoundings;
    score_products += 1;
    alibi_tilt = 2 * u;
  }
  if (p.fp8) CountScoreScales(*p.fp8);
}

// The scales may multiply the 8-bit values, or their products at any step.
void Roundings::CountScoreScales(const Fp8& fp8) {
  const double q = fp8.q_scale, k = fp8.k_scale;
  const double largest = std::max({1.0, 1 / q, 1 / k, 1 / (q * k)});
  score_roundings += kFp8Roundings;
  score_products += kFp8Roundings;
  score_underflow *= std::max({1.0, q, k, q * k});
  product_reach *= largest;
  stored_reach *= largest;
}

void Roundings::StoreWeights(const NumericsProfile& profile) {
  const bool rounds_weights = Narrower(profile.probability, profile.accumulate);
  u_weight = rounds_weights ? TraitsOf(profile.probability).unit_roundoff : 0;
  weight_normal = rounds_weights ? TraitsOf(profile.probability).min_normal : 0;
  weight_lost = rounds_weights ? Lost(profile.probability, profile) : 0;
  weight_range = rounds_weights ? TraitsOf(profile.probability).max_finite : range;
  weight_underflow = kLostRoundings * tau;
  rounded_lse = profile.lse_of_rounded_weights;
}

// All that multiplies weights or values besides one another.
void Roundings::CountValueRoundings(const Problem& p) {
  has_zero_values = p.dropout || p.sinks;
  kept = value_reach = 1;
  value_underflow = tau;
  double roundings = 0;
  if (p.dropout) {
    // p itself is rounded too, which weighs p / (1 - p).
    kept = 1 / (1 - p.dropout->probability);
    roundings += kDropoutRoundings + p.dropout->probability * kept;
    value_reach = kept;
    value_underflow *= kept;
  }
  if (p.fp8) {
    roundings += kFp8Roundings;
    value_reach *= std::max(1.0, 1 / p.fp8->v_scale);
    value_underflow *= std::max(1.0, p.fp8->v_scale);
  }
  factor_error = roundings > 0 ? Gamma(roundings, u) : 0;
  u_numerator = u_weight + factor_error + u_weight * factor_error;
}

void Roundings::StoreOutputs(const Problem& p, const NumericsProfile& profile) {
  const FormatTraits sum = TraitsOf(profile.accumulate), element = TraitsOf(p.dtype);
  const double directed = profile.output_rounding == OutputRounding::kTruncate ? 2 : 1;
  const bool narrow_out = Narrower(p.dtype, profile.accumulate);
  u_out = narrow_out ? directed * element.unit_roundoff : (directed - 1) * sum.unit_roundoff;
  out_lost = narrow_out ? directed * element.min_subnormal / 2 : 0;
  out_range = std::min(element.max_finite, sum.max_finite);
  u_lse = Narrower(p.LseDType(), profile.accumulate) ? TraitsOf(p.LseDType()).unit_roundoff : 0;
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
