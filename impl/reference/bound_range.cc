#include "impl/reference/bound_range.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr unsigned kEveryMechanism = kHiddenByLength | kHiddenByCausal | kHiddenByWindow |
                                     kHiddenByMask | kHiddenByBias | kHiddenByDocument |
                                     kHiddenByBlock;

// The mechanisms (bits of HiddenBy) that keep non-finite data of a tensor from mattering.
unsigned SafeMechanisms(const Contract& contract, PoisonTensor tensor) {
  const std::pair<unsigned, PoisonPlace> kPlaces[] = {
      {kHiddenByLength, PoisonPlace::kLength}, {kHiddenByCausal, PoisonPlace::kCausal},
      {kHiddenByWindow, PoisonPlace::kWindow}, {kHiddenByMask, PoisonPlace::kMask},
      {kHiddenByBias, PoisonPlace::kBias},     {kHiddenByDocument, PoisonPlace::kDocument},
      {kHiddenByBlock, PoisonPlace::kBlock}};
  unsigned safe = 0;
  for (const auto& [bit, place] : kPlaces) {
    if (contract.IsPoisonSafe(tensor, place)) safe |= bit;
  }
  return safe;
}

bool ValueIsFinite(const HeadFacts& head, int64_t key) {
  return head.kv.values_finite || head.kv.value_is_finite[static_cast<size_t>(key)];
}

// The largest that a score may get on its way, scaled and based on 2 or not.
double Reach(const Roundings& r, double product, double bias) {
  return product * r.product_reach + bias * kLog2E;
}

}  // namespace

RangeCheck::RangeCheck(const Problem& problem, const Inputs& inputs, const Reference& reference,
                       const Contract& contract, const Roundings& roundings)
    : p_(problem),
      inputs_(inputs),
      reference_(reference),
      r_(roundings),
      steps_(problem, inputs, contract.semantics),
      filler_(contract.masking_value),
      safe_keys_(SafeMechanisms(contract, PoisonTensor::kK)),
      safe_values_(SafeMechanisms(contract, PoisonTensor::kV)) {}

// Enough for every row of the head at once, in nearly every head.
bool RangeCheck::HeadIsSafe(const HeadFacts& head) const {
  const double reach = Reach(r_, head.largest_product, head.largest_bias);
  return reach <= r_.range / 4 && reach <= r_.score_range / 4 && head.kv.values_finite &&
         r_.abs_scale * kLog2E <= r_.range / 4 &&
         head.kv.value_sum * r_.value_reach <= r_.range / 4 &&
         head.largest_query * std::max(1.0, r_.abs_scale) <= r_.query_range / 4;
}

// A sink may be stored among the scores, a kept weight as a weight.
bool RangeCheck::SinkOrDropoutMayOverflow(const HeadFacts& head) const {
  return head.sink * kLog2E > r_.range / 2 || head.sink > r_.score_range * (1 - 0x1p-6) ||
         r_.kept > r_.weight_range / 2;
}

RangeOfHead RangeCheck::RangeOf(const HeadFacts& head, int64_t number) const {
  if (r_.ParameterMayOverflow(p_, number)) return RangeOfHead::kMayOverflow;
  if (r_.has_zero_values && SinkOrDropoutMayOverflow(head)) return RangeOfHead::kMayOverflow;
  return HeadIsSafe(head) ? RangeOfHead::kSafe : RangeOfHead::kByRow;
}

bool RangeCheck::MayOverflow(HeadFacts& head, const Row& row) const {
  if (!head.range) head.range = RangeOf(head, row.head);
  if (*head.range != RangeOfHead::kByRow) return *head.range == RangeOfHead::kMayOverflow;
  return HiddenMayOverflow(head, row) || QueryMayOverflow(row) || VisibleMayOverflow(head, row);
}

// A NaN is no overflow.
bool RangeCheck::ScoreMayOverflow(HeadFacts& head, const Row& row, int64_t key) const {
  double bias = std::abs(p_.Alibi(row.batch, row.head, row.query, key));
  if (p_.bias && p_.bias->At(row.batch, row.head, row.query, key)) {
    bias += std::abs(inputs_.bias.Broadcast(row.batch, row.head, row.query, key));
  }
  const double product = head.AbsProducts(row.query)(key);
  // The scale alone may be out of range too, and infinity times a zero product is NaN.
  if (std::max(Reach(r_, product, bias), r_.abs_scale * kLog2E) > r_.range / 2) return true;
  // A score is stored once, before or after it is scaled, and rounds by far less than 2^-6 there.
  return product * r_.stored_reach + bias > r_.score_range * (1 - 0x1p-6);
}

// Any one safe mechanism is enough: what it hides is never looked at.
bool RangeCheck::HiddenMayOverflow(HeadFacts& head, const Row& row) const {
  if ((safe_keys_ & safe_values_) == kEveryMechanism) return false;
  for (int64_t j = 0; j < p_.kv_len; ++j) {
    const unsigned why = WhyHidden(p_, row, j);
    if (why == kHiddenByNothing) continue;
    if ((why & safe_keys_) == 0 &&
        (ScoreMayOverflow(head, row, j) || std::isnan(head.AbsProducts(row.query)(j)))) {
      return true;
    }
    if ((why & safe_values_) == 0 && !ValueIsFinite(head, j)) return true;
  }
  return false;
}

// scale * q, where it is stored in a type of less range.
bool RangeCheck::QueryMayOverflow(const Row& row) const {
  for (int64_t d = 0; d < p_.head_dim; ++d) {
    if (std::abs(inputs_.q.At(row.batch, row.head, row.query, d)) * r_.abs_scale > r_.query_range) {
      return true;
    }
  }
  return false;
}

bool RangeCheck::VisibleMayOverflow(HeadFacts& head, const Row& row) const {
  thread_local std::vector<int64_t> keys;
  ListVisibleKeys(p_, row, keys);
  for (const int64_t j : keys) {
    if (ScoreMayOverflow(head, row, j)) return true;
    // A kernel may skip a weight that is dropped, or multiply by its 0.
    if (p_.dropout && !p_.dropout->keep.At(row.batch, row.head, row.query, j) &&
        !ValueIsFinite(head, j)) {
      return true;
    }
  }
  const int64_t kv_head = row.head / p_.heads_per_kv_head();
  for (int64_t d = 0; d < p_.value_dim; ++d) {
    double sum = 0;
    for (const int64_t j : keys) sum += std::abs(inputs_.v.At(row.batch, kv_head, j, d));
    if (filler_) sum += HiddenValueSum(row, d);
    // The running accumulator may hold the plain sum of |v| before it is normalised.
    if (sum * r_.value_reach > r_.range / 2) return true;
  }
  return false;
}

// Of |v| over hidden keys: with a finite filler, a tile of such keys alone has weights of one until a
// visible key comes.
double RangeCheck::HiddenValueSum(const Row& row, int64_t lane) const {
  const int64_t kv_head = row.head / p_.heads_per_kv_head();
  double sum = 0;
  for (int64_t j = 0; j < p_.kv_len; ++j) {
    const double value = std::abs(inputs_.v.At(row.batch, kv_head, j, lane));
    if (std::isfinite(value) && !Visible(p_, row, j)) sum += value;
  }
  return sum;
}

// What the row's largest score is at least, as a kernel computes it.
double RangeCheck::LeastLargestScore(const ScoreErrors& errors, const Row& row) const {
  double largest = p_.sinks ? (*p_.sinks)[static_cast<size_t>(row.head)] : -kInf;
  largest -= std::abs(largest) * (kFillerRoundings * r_.u + r_.u_score);
  for (const int64_t j : VisibleKeys(p_, row)) {
    const double s = reference_.scores.At(row.batch, row.head, row.query, j);
    largest = std::max(largest, s - errors.Of(j, s, {}));
  }
  return largest;
}

// What the score of a hidden key is at most. Bias and ALiBi may be added to the filler, or not.
double RangeCheck::LargestFiller(const ScoreErrors& errors, const Row& row, int64_t key) const {
  const double filler =
      filler_->value + std::abs(filler_->value) * (kFillerRoundings * r_.u + r_.u_score);
  const double extra = errors.Bias(key) + errors.Alibi(key);
  if (!filler_->is_added) return filler + extra;
  const int64_t kv_head = row.head / p_.heads_per_kv_head();
  double scaled = 0;
  for (int64_t d = 0; d < p_.head_dim; ++d) {
    scaled += inputs_.q.At(row.batch, row.head, row.query, d) *
              inputs_.k.At(row.batch, kv_head, key, d) * p_.EffectiveScale();
  }
  const double score = steps_.Final(row, key, scaled, /*biased=*/false);
  return filler + score + extra + errors.Of(key, score, {});
}

bool RangeCheck::HiddenMayOutweigh(HeadFacts& head, const Row& row) const {
  if (!filler_) return false;
  const ScoreErrors errors(p_, inputs_, r_, head, row, Condition::kExact);
  const double largest = LeastLargestScore(errors, row);
  for (int64_t j = 0; j < p_.kv_len; ++j) {
    if (Visible(p_, row, j)) continue;
    // A NaN settles nothing.
    if (!(LargestFiller(errors, row, j) < largest - r_.vanishing_gap)) return true;
  }
  return false;
}

}  // namespace attest
