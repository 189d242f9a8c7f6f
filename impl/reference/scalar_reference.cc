#include "impl/reference/scalar_reference.h"

#include <cmath>
#include <vector>

namespace attest {
namespace {

using Real = long double;

// "A query attends to a key when the key is within the item's length, not past the diagonal under
// causal masking, not outside the window, not masked out, and its additive mask is not -inf."
bool Attends(const Problem& p, const Inputs& in, int64_t b, int64_t h, int64_t i, int64_t j) {
  // Element of a plane whose extents of 1 stand for every index.
  const auto flat = [&](const Shape4& s) {
    const int64_t at[4] = {b, h, i, j};
    int64_t position = 0;
    for (size_t axis = 0; axis < 4; ++axis) position = position * s[axis] + at[axis] % s[axis];
    return static_cast<size_t>(position);
  };
  const int64_t ahead = j - i - (p.diagonal_offset.empty() ? 0 : p.diagonal_offset.at(size_t(b)));
  if (p.key_lengths && !(j < p.key_lengths->at(size_t(b)))) return false;
  if (p.causal && ahead > 0) return false;
  if (p.window.left && -ahead > *p.window.left) return false;
  if (p.window.right && ahead > *p.window.right) return false;
  if (p.mask && p.mask->bits.at(flat(p.mask->shape)) == 0) return false;
  return !(p.bias && in.bias.values.at(flat(in.bias.shape)) == -INFINITY);
}

Real Score(const Problem& p, const Inputs& in, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t group = p.q_heads / p.kv_heads;
  const Real scale = p.scale          ? Real(*p.scale)
                     : p.head_dim > 0 ? 1 / std::sqrt(Real(p.head_dim))
                                      : Real(1);
  Real dot = 0;
  for (int64_t d = p.head_dim - 1; d >= 0; --d)
    dot += Real(in.q.At(b, h, i, d)) * Real(in.k.At(b, h / group, j, d));
  dot *= scale;
  if (p.bias) {
    const Shape4& s = in.bias.shape;
    dot += Real(in.bias.At(b % s[0], h % s[1], i % s[2], j % s[3]));
  }
  return dot;
}

}  // namespace

ScalarReference ComputeScalarReference(const Problem& p, const Inputs& in) {
  ScalarReference result{Array(p.OutShape()), Array(p.LseShape(), -INFINITY),
                         Array(p.WeightsShape())};
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.q_heads; ++h)
      for (int64_t i = 0; i < p.q_len; ++i) {
        std::vector<int64_t> keys;
        std::vector<Real> scores;
        Real largest = -INFINITY, total = 0;
        for (int64_t j = p.kv_len - 1; j >= 0; --j) {
          if (!Attends(p, in, b, h, i, j)) continue;
          keys.push_back(j);
          scores.push_back(Score(p, in, b, h, i, j));
          if (!(scores.back() <= largest)) largest = scores.back();
        }
        if (keys.empty()) continue;
        for (const Real score : scores) total += std::exp(score - largest);
        result.lse.At(b, h, i, 0) = double(largest + std::log(total));
        std::vector<Real> sums(size_t(p.value_dim), 0);
        for (size_t n = 0; n < keys.size(); ++n) {
          const Real weight = std::exp(scores[n] - largest) / total;
          result.weights.At(b, h, i, keys[n]) = double(weight);
          for (int64_t d = 0; d < p.value_dim; ++d)
            sums[size_t(d)] += weight * Real(in.v.At(b, h * p.kv_heads / p.q_heads, keys[n], d));
        }
        for (int64_t d = 0; d < p.value_dim; ++d)
          result.out.At(b, h, i, d) = double(sums[size_t(d)]);
      }
  return result;
}

}  // namespace attest
