// One pair of a row and a key it sees, as the gradients need it: what the backward pass and the gradients
// of bias and sinks share, however they walk over the pairs.
#ifndef ATTEST_TILED_BACKWARD_PAIR_H_
#define ATTEST_TILED_BACKWARD_PAIR_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/tiled/visible_keys.h"

namespace attest {

template <typename A>
A Dot(const A* a, const A* b, int64_t size) {
  A sum = 0;
  for (int64_t n = 0; n < size; ++n) sum += a[n] * b[n];
  return sum;
}

// Component d of `from` is read to row[d].
template <typename T, typename A>
void ReadRow(const RowSpan<T>& from, std::vector<A>& row) {
  for (size_t d = 0; d < row.size(); ++d) row[d] = static_cast<A>(from[static_cast<int64_t>(d)]);
}

// A row of a backward call with element type T. The call must outlive it.
template <typename T>
class BackwardRow {
 public:
  using A = AccumulatorOf<T>;

  struct Pair {
    A weight;  // exp(score - lse)
    A kept;    // what dropout multiplies it by
    A dlogit;  // weight * (dweight - D): the gradient by what the softmax takes, and so by the bias
    A slope;   // of the softcap: the gradient by scale * q.k is dlogit times it
  };

  explicit BackwardRow(const CallView& call)
      : call_(call),
        rows_(call),
        scale_(static_cast<A>(call.scale)),
        kept_share_(static_cast<A>(call.dropout ? 1 / (1 - call.dropout->probability) : 1)),
        has_masks_(HasMasks(call)),
        query_(static_cast<size_t>(call.head_dim)),
        dout_(static_cast<size_t>(call.value_dim)),
        out_(dout_) {}

  // Turns to row i, no padding, of head h of batch item b, which all below speaks of.
  void Start(int64_t b, int64_t h, int64_t i) {
    b_ = b, h_ = h, i_ = i;
    rows_.Query(b, h, i, query_.data());
    ReadRow(call_.template DoutAt<T>(b, h, i), dout_);
    ReadRow(call_.template OutAt<T>(b, h, i), out_);
    lse_ = call_.LseAt<A>(b, h, i);
    delta_ = Dot(dout_.data(), out_.data(), call_.value_dim);
  }

  const A* query() const { return query_.data(); }
  const A* dout() const { return dout_.data(); }
  A delta() const { return delta_; }  // D = dout . out
  A lse() const { return lse_; }

  // Of a key within RangeOfRow.
  bool Sees(int64_t j) const { return !has_masks_ || MasksAttend<T>(call_, b_, h_, i_, j); }

  // The pair with key j, which the row sees.
  Pair With(int64_t j, const A* key, const A* value) const {
    Pair pair;
    pair.weight = std::exp(Score(j, key, &pair.slope) - lse_);
    pair.kept = KeptShare(j);
    const A dweight = pair.kept * Dot(dout_.data(), value, call_.value_dim);
    pair.dlogit = pair.weight * (dweight - delta_);
    return pair;
  }

 private:
  // As the forward pass has it.
  A Score(int64_t j, const A* key, A* slope) const {
    A score = scale_ * Dot(query_.data(), key, call_.head_dim);
    *slope = 1;
    if (call_.softcap != 0) {
      const A cap = static_cast<A>(call_.softcap);
      const A tanh = std::tanh(score / cap);
      score = cap * tanh;
      *slope = (1 - tanh) * (1 + tanh);
    }
    if (call_.bias) score += BiasAt<T>(call_, b_, h_, i_, j);
    if (call_.alibi_slopes) score += AlibiAt<T>(call_, b_, h_, i_, j);
    return score;
  }

  A KeptShare(int64_t j) const {
    if (!call_.dropout) return 1;
    const bool is_kept = call_.dropout->keep.template At<const uint8_t>(b_, h_, i_, j) != 0;
    return is_kept ? kept_share_ : A{0};
  }

  const CallView& call_;
  const InputRows<T> rows_;
  const A scale_;
  const A kept_share_;  // what dropout makes of a weight that it keeps
  const bool has_masks_;
  int64_t b_ = 0, h_ = 0, i_ = 0;
  std::vector<A> query_, dout_, out_;
  A lse_ = 0, delta_ = 0;
};

}  // namespace attest

#endif  // ATTEST_TILED_BACKWARD_PAIR_H_
