// A numerics profile as numbers: the roundings that the bound forgives in one call. The symbols are
// those of BOUND.md. Private to the bound.
#ifndef ATTEST_REFERENCE_BOUND_ROUNDINGS_H_
#define ATTEST_REFERENCE_BOUND_ROUNDINGS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"

namespace attest {

// Each is a count of roundings; BOUND.md says what is counted.
constexpr double kScoreRoundings = 6;    // of a score, besides its head_dim products and sums
constexpr double kAlibiRoundings = 3;    // more: the distance, its product with the slope, the sum
constexpr double kFp8Roundings = 2;      // more, of a score or of a value: two scales, or one twice
constexpr double kCapRoundings = 9;      // of a softcap, in units of u |capped score|
constexpr double kCapStores = 3;         // the same, in units of u_score: quotient, tanh, product
constexpr double kFillerRoundings = 8;   // of a finite stand-in for minus infinity, of a sink
constexpr double kDropoutRoundings = 3;  // of a kept weight: 1 - p, its reciprocal, the product
constexpr double kShiftRoundings = 8;    // of s - m, in units of u max(|s|, |m|)
constexpr double kLogRoundings = 8;      // of s - lse, in units of u ln n
constexpr double kRescaleRoundings = 6;  // of what is exponentiated, in units of u (m - s)
constexpr double kPlainExps = 3;         // exps that every key meets, besides its rescales
constexpr double kSumRoundings = 6;      // of a sum, besides one an addend and one a rescale
constexpr double kLostRoundings = 3;    // below the least normal: exp, normalising; the reference's
constexpr double kDivideRoundings = 3;  // of an output: reciprocal, product, store
constexpr double kMergeRoundings = 4;   // of weights exp(lse_i - lse) that are not renormalised
constexpr double kMergeLogRoundings = 6;
constexpr double kSlack = 1.01;     // first-order terms made whole
constexpr double kHoeffding = 2.5;  // the lambda of P

// Arithmetic on subnormal numbers is slow: what is smaller than this is summed up and looked at once.
constexpr double kTiny = 1e-290;

struct Roundings {
  Roundings(const Problem& problem, const NumericsProfile& profile);

  double u;                // accumulation, half an ulp of 1 (more where sums truncate)
  bool biased;             // sums truncate: their errors do not cancel
  double exp_error;        // relative error of one exp
  double score_roundings;  // of the products and sums of a score
  double score_products;   // how many of them may underflow
  double alibi_tilt;       // relative error of the slopes, shared by all keys
  double softcap;          // 0 = none
  double cap_error;        // absolute error of tanh, times the softcap
  double factor_error;     // of what multiplies weights or values besides: dropout, the scale of v
  double u_numerator;      // that and u_weight together
  double kept;             // what dropout multiplies a weight by, else 1
  bool has_zero_values;    // dropout or a sink: some value may be 0 that is not in V
  double vanishing_gap;    // exp of what lies so far below the largest score is exactly 0
  double tau;              // what underflow in the accumulation type may lose, absolute
  double score_underflow;  // and of a product that is scaled; at least kTiny, which moves no weight
  double weight_underflow;  // and of a weight
  double value_underflow;   // and of its product with a value, what multiplies that included
  double u_score;           // rounding of a stored score; 0 = not narrower than the accumulator
  double score_lost;        // and what its underflow may lose
  double u_query;  // rounding of scale * q in storage; 0 = none, or the scale is a power of two
  double query_lost;
  double u_weight;  // rounding of a weight before it multiplies v; 0 = none
  double weight_normal, weight_lost;
  double u_out;  // half an ulp of 1 (one where it truncates) of out and weights; 0 = counted in u
  double out_lost;
  double u_lse;            // the same of the stored lse
  double input_roundings;  // 1 where inputs are rounded to a narrower accumulator, else 0
  bool rounded_lse;        // the lse sums rounded weights
  int64_t summation_block;
  double abs_scale;
  double range, score_range, query_range, weight_range, out_range;  // largest finite values
  double product_reach, stored_reach;  // times |q||k|: the largest that a score may get on its way
  double value_reach;                  // times |v|: likewise of what the weights multiply
  bool extended_reference;

  // The scale may be rounded to the type of a scaled query, a softcap, its inverse and a slope to that of
  // the scores; and infinity times the 0 of a query, a score or a distance is NaN.
  bool ParameterMayOverflow(const Problem& problem, int64_t q_head) const;
  // How many additions a term of a sum over `keys` keys takes part in.
  double Depth(double keys) const;
  // The error of storing a value of size at most `size` as an output.
  double StoreError(double size) const;
  // What the softcap adds to the error of a score whose terms have the magnitude `condition`.
  double CapError(double condition) const {
    if (softcap == 0) return 0;
    return cap_error + (kCapRoundings * u + kCapStores * u_score) * std::min(softcap, condition);
  }
  // What the reference itself may be off by, where its terms add up to `size` and give `value`.
  double ReferenceError(double value, double size) const;

 private:
  // In this order: each stands on those before.
  void StoreScores(const Problem& problem, const NumericsProfile& profile);
  void CountScoreRoundings(const Problem& problem, const NumericsProfile& profile);
  void CountScoreScales(const Fp8& fp8);
  void StoreWeights(const NumericsProfile& profile);
  void CountValueRoundings(const Problem& problem);
  void StoreOutputs(const Problem& problem, const NumericsProfile& profile);
};

// Half an ulp of `size` in a format of that roundoff: the roundoff times the power of two at or below
// `size`, and at least `lost`.
inline double HalfUlp(double roundoff, double lost, double size) {
  const uint64_t exponent = std::bit_cast<uint64_t>(size) & 0x7FF0000000000000u;
  return std::max(roundoff * std::bit_cast<double>(exponent), lost);
}

// n u / (1 - n u); infinite where the sum may have no correct digit.
inline double Gamma(double n, double u) {
  const double x = n * u;
  if (x < 0.01) return x * (1 + 1.02 * x);  // not below x / (1 - x), and no division
  return x < 1 ? x / (1 - x) : std::numeric_limits<double>::infinity();
}

}  // namespace attest

#endif  // ATTEST_REFERENCE_BOUND_ROUNDINGS_H_
