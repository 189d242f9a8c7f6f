#include "impl/reference/scalar_reference.h"

#include <cmath>
#include <vector>

namespace attest {
namespace {

using Real = long double;

// One query, addressed as the prose does: item b, head h, position i.
class Query {
 public:
  Query(const Problem& p, const Inputs& in, SoftcapOrder order, int64_t b, int64_t h, int64_t i)
      : p_(p), in_(in), order_(order), b_(b), h_(h), i_(i) {}

  // "A query attends to a key when the key is within the item's length, not past the diagonal under
  // causal masking unless it lies in the item's prefix, not outside the window, of the query's own
  // document, not in a tile or at a place that is masked out, and its additive mask is not -inf."
  bool Attends(int64_t j) const {
    const int64_t ahead = Ahead(j);
    const auto length_of = [&](const std::vector<int64_t>& lengths) {
      return lengths.at(size_t(b_));
    };
    if (p_.key_lengths && !(j < length_of(*p_.key_lengths))) return false;
    const bool in_prefix = p_.prefix_lengths && j < length_of(*p_.prefix_lengths);
    if (p_.causal && ahead > 0 && !in_prefix) return false;
    if (p_.window.left && -ahead > *p_.window.left) return false;
    if (p_.window.right && ahead > *p_.window.right) return false;
    if (p_.documents && p_.documents->query.at(size_t(b_ * p_.q_len + i_)) !=
                            p_.documents->key.at(size_t(b_ * p_.kv_len + j))) {
      return false;
    }
    if (p_.block_mask) {
      const BlockMask& tiles = *p_.block_mask;
      const Shape4& s = tiles.plane.shape;
      if (tiles.plane.bits.at(Flat(s, i_ / tiles.block_q, j / tiles.block_k)) == 0) return false;
    }
    if (p_.mask && p_.mask->bits.at(Flat(p_.mask->shape, i_, j)) == 0) return false;
    return !(p_.bias && BiasOf(j) == -INFINITY);
  }

  Real Raw(int64_t j) const {
    const int64_t group = p_.q_heads / p_.kv_heads;
    const Real scale = p_.scale          ? Real(*p_.scale)
                       : p_.head_dim > 0 ? 1 / std::sqrt(Real(p_.head_dim))
                                         : Real(1);
    Real dot = 0;
    for (int64_t d = p_.head_dim - 1; d >= 0; --d)
      dot += Real(in_.q.At(b_, h_, i_, d)) * Real(in_.k.At(b_, h_ / group, j, d));
    return dot * scale;
  }

  // After the softcap: of the score alone, or of all that is added up.
  Real Capped(int64_t j) const {
    return Cap(order_ == SoftcapOrder::kAfterBias && p_.softcap != 0 ? Raw(j) + Extra(j) : Raw(j));
  }

  // What is exponentiated.
  Real Score(int64_t j) const {
    if (order_ == SoftcapOrder::kAfterBias) return Cap(Extra(j) + Raw(j));
    return Extra(j) + Cap(Raw(j));
  }

  // What the key's weight is multiplied by after the softmax.
  Real Kept(int64_t j) const {
    if (!p_.dropout) return 1;
    const size_t at = size_t(((b_ * p_.q_heads + h_) * p_.q_len + i_) * p_.kv_len + j);
    return Real(p_.dropout->keep.bits.at(at)) / (1 - Real(p_.dropout->probability));
  }

 private:
  // How far the key lies past the diagonal.
  int64_t Ahead(int64_t j) const {
    return j - i_ - (p_.diagonal_offset.empty() ? 0 : p_.diagonal_offset.at(size_t(b_)));
  }

  // Element (b, h, x, y) of a tensor whose extents of 1 stand for every index.
  size_t Flat(const Shape4& s, int64_t x, int64_t y) const {
    const int64_t at[4] = {b_, h_, x, y};
    int64_t position = 0;
    for (size_t axis = 0; axis < 4; ++axis) position = position * s[axis] + at[axis] % s[axis];
    return size_t(position);
  }

  Real BiasOf(int64_t j) const { return in_.bias.values.at(Flat(in_.bias.shape, i_, j)); }

  // Additive mask and ALiBi.
  Real Extra(int64_t j) const {
    Real sum = p_.bias ? BiasOf(j) : Real(0);
    if (p_.alibi_slopes) {
      sum -= Real(p_.alibi_slopes->at(size_t(h_))) * std::abs(Real(Ahead(j)));
    }
    return sum;
  }

  Real Cap(Real x) const {
    return p_.softcap == 0 ? x : Real(p_.softcap) * std::tanh(x / Real(p_.softcap));
  }

  const Problem& p_;
  const Inputs& in_;
  const SoftcapOrder order_;
  const int64_t b_, h_, i_;
};

// The asked score of any key, which the query attends to or not.
Real AskedScore(const Query& query, ScoreMode mode, int64_t j, Real weight) {
  switch (mode) {
    case ScoreMode::kRaw:
      return query.Raw(j);
    case ScoreMode::kCapped:
      return query.Capped(j);
    case ScoreMode::kBiased:
      return query.Attends(j) ? query.Score(j) : -INFINITY;
    case ScoreMode::kWeights:
      break;
  }
  return weight;
}

void ComputeQuery(const Problem& p, const Inputs& in, SoftcapOrder order, int64_t b, int64_t h,
                  int64_t i, ScalarReference& result) {
  const Query query(p, in, order, b, h, i);
  std::vector<int64_t> keys;
  std::vector<Real> scores;
  Real largest = -INFINITY, total = 0;
  for (int64_t j = p.kv_len - 1; j >= 0; --j) {
    if (!query.Attends(j)) continue;
    keys.push_back(j);
    scores.push_back(query.Score(j));
    if (!(scores.back() <= largest)) largest = scores.back();
  }
  // A sink is a key of its own, whose value is zero.
  if (p.sinks) {
    scores.push_back(p.sinks->at(size_t(h)));
    if (!(scores.back() <= largest) && !std::isnan(largest)) largest = scores.back();
  }
  if (!scores.empty()) {
    for (const Real score : scores) total += std::exp(score - largest);
    result.lse.At(b, h, i, 0) = double(largest + std::log(total));
  }
  std::vector<Real> sums(size_t(p.value_dim), 0);
  for (size_t n = 0; n < keys.size(); ++n) {
    const Real weight = std::exp(scores[n] - largest) / total;
    result.weights.At(b, h, i, keys[n]) = double(weight);
    for (int64_t d = 0; d < p.value_dim; ++d)
      sums[size_t(d)] +=
          weight * query.Kept(keys[n]) * Real(in.v.At(b, h * p.kv_heads / p.q_heads, keys[n], d));
  }
  for (int64_t d = 0; d < p.value_dim; ++d) result.out.At(b, h, i, d) = double(sums[size_t(d)]);
  for (int64_t j = 0; j < p.kv_len && p.want_scores; ++j) {
    result.asked_scores.At(b, h, i, j) =
        double(AskedScore(query, *p.want_scores, j, result.weights.At(b, h, i, j)));
  }
}

}  // namespace

ScalarReference ComputeScalarReference(const Problem& p, const Inputs& in, SoftcapOrder order) {
  ScalarReference result{
      Array(p.OutShape()), Array(p.LseShape(), -INFINITY), Array(p.WeightsShape()), {}};
  if (p.want_scores) result.asked_scores = Array(p.WeightsShape());
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.q_heads; ++h)
      for (int64_t i = 0; i < p.q_len; ++i) ComputeQuery(p, in, order, b, h, i, result);
  return result;
}

}  // namespace attest
