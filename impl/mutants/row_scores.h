// The scores and values of one row at a time, with a mutation's mistakes, and the outputs that hold a
// number a key: what the kernels of this folder share, however they walk over the keys.
#ifndef ATTEST_MUTANTS_ROW_SCORES_H_
#define ATTEST_MUTANTS_ROW_SCORES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/mutants/faulty_rows.h"
#include "impl/mutants/visible.h"

namespace attest {

// exp(score - max); a score of -inf weighs 0 even while the maximum itself is -inf.
template <typename A>
A WeightOf(A score, A max) {
  if (score == -std::numeric_limits<A>::infinity()) return A{0};
  return std::exp(score - max);
}

// visit(batch, head, row, rows of the item) for every row.
template <typename Visitor>
void ForEachStoredRow(const CallView& call, Visitor&& visit) {
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.q_heads; ++h) {
      const int64_t rows = call.StoredRows(b);
      for (int64_t i = 0; i < rows; ++i) visit(b, h, i, rows);
    }
  }
}

template <typename T>
class RowScores {
 public:
  using A = AccumulatorOf<T>;
  static constexpr A kNoScore = -std::numeric_limits<A>::infinity();

  RowScores(const CallView& call, Mutation mutation, double scale)
      : call_(call),
        rows_(call, mutation),
        mutation_(mutation),
        scale_(static_cast<A>(scale)),
        query_(static_cast<size_t>(call.head_dim)),
        key_(query_),
        value_(static_cast<size_t>(call.value_dim)) {}

  // Turns to row i of head h of batch item b, which all below speaks of.
  void Start(int64_t b, int64_t h, int64_t i) {
    b_ = b, h_ = h, i_ = i;
    rows_.Query(b, h, i, query_.data());
  }

  bool Sees(int64_t j) const { return PlainVisible(call_, mutation_, b_, h_, i_, j); }
  bool IsLost(int64_t j) const { return rows_.IsLost(b_, h_, j); }

  // -inf without one: a term of weight 0.
  A Sink() const {
    if (!call_.sinks) return kNoScore;
    return static_cast<A>((*call_.sinks)[static_cast<size_t>(h_)]);
  }

  // scale * q.k
  A Raw(int64_t j) {
    rows_.Key(b_, h_, j, key_.data());
    constexpr size_t kMostLanes = 64;
    const bool is_short = Is(Mutation::kHeadDimCapped) && query_.size() > kMostLanes;
    const size_t lanes = is_short ? kMostLanes : query_.size();
    A dot = 0;
    for (size_t c = 0; c < lanes; ++c) {
      dot += query_[c] * key_[c];
      if (Is(Mutation::kProductsInF16) && call_.dtype == DType::kF16) dot = Rounded(dot);
    }
    if (Is(Mutation::kScoresScaledLate)) dot = Rounded(dot);
    if (Is(Mutation::kKeyScaleIgnored) && call_.fp8) dot /= static_cast<A>(call_.k_scale);
    return scale_ * dot;
  }

  A CappedRaw(int64_t j) {
    const bool is_ignored = Is(Mutation::kSoftcapIgnored) && call_.mask;
    return is_ignored ? Raw(j) : Capped(Raw(j));
  }

  // The whole score of a key, visible or not.
  A Score(int64_t j) {
    const bool is_capped_last = Is(Mutation::kSoftcapAfterBias);
    A score = is_capped_last ? Raw(j) : CappedRaw(j);
    if (UsesBias(call_, mutation_)) score += static_cast<A>(Bias(j));
    if (call_.alibi_slopes) score += Alibi(j);
    score = WithFillers(score, j);
    if (Is(Mutation::kScoresClamped)) score = std::min(score, A{30});
    return is_capped_last ? Capped(score) : score;
  }

  // What dropout makes of a weight: a factor, 0 where the weight is dropped.
  A KeptShare(int64_t j) const {
    if (!call_.dropout) return A{1};
    if (call_.dropout->keep.template At<const uint8_t>(b_, h_, i_, j) == 0) return A{0};
    if (Is(Mutation::kDropoutUnscaled) || Is(Mutation::kDropoutRenormalised)) return A{1};
    const double more = Is(Mutation::kDropoutShareOff) ? 1e-3 : 0;
    return static_cast<A>(1 / (1 - call_.dropout->probability + more));
  }

  // Whether the key's weight is put to 0 once the sum of weights has it.
  bool IsMaskedLate(int64_t j) const {
    return Is(Mutation::kMaskAfterSoftmax) && call_.mask &&
           !MaskAttends(call_, mutation_, b_, h_, i_, j);
  }

  // The value of key j; valid until the next one is asked for.
  const std::vector<A>& Value(int64_t j) {
    rows_.Value(b_, h_, j, value_.data());
    return value_;
  }

  // To the type of the call.
  A Rounded(A value) const { return static_cast<A>(RoundTo(call_.dtype, double(value))); }

  // Writes what the call asks for beside out and lse, where the row's largest score is `max`, its
  // weights sum to `sum`, and `has_keys` whether it sees any.
  void WriteKeyOutputs(A max, A sum, bool has_keys) {
    if (call_.weights) WriteWeights(*call_.weights, max, sum, has_keys);
    if (!call_.scores) return;
    if (call_.score_mode == 3) return WriteWeights(*call_.scores, max, sum, has_keys);
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      call_.scores->template At<T>(b_, h_, i_, j) = static_cast<T>(AskedScore(j));
    }
  }

 private:
  bool Is(Mutation mutation) const { return mutation_ == mutation; }

  A Capped(A score) const {
    const double most = Is(Mutation::kSoftcapAtMost16) ? 16 : call_.softcap;
    const A cap = static_cast<A>(std::min(call_.softcap, most));
    const bool is_skipped = Is(Mutation::kSoftcapSkippedInF16) && call_.dtype == DType::kF16;
    if (cap == 0 || is_skipped) return score;
    const A share = score / cap;
    const bool is_rounded = Is(Mutation::kSoftcapInF16);
    return cap *
           std::tanh(is_rounded ? static_cast<A>(RoundTo(DType::kF16, double(share))) : share);
  }

  double Bias(int64_t j) const {
    const double bias = BiasOf(call_, mutation_, b_, h_, i_, j);
    if (Is(Mutation::kBiasRounded) && call_.dtype == DType::kF32) {
      return RoundTo(DType::kBF16, bias);
    }
    return Is(Mutation::kWideBiasNarrowed) ? RoundTo(call_.dtype, bias) : bias;
  }

  A Alibi(int64_t j) const {
    if (Is(Mutation::kAlibiSlopesGeometric) && (call_.q_heads & (call_.q_heads - 1)) != 0) {
      const double exponent = 8.0 * double(h_ + 1) / double(call_.q_heads);
      const int64_t distance = std::abs(j - (i_ + call_.DiagonalOffset(b_)));
      return static_cast<A>(-std::exp2(-exponent) * double(distance));
    }
    const int64_t head = Is(Mutation::kAlibiOfHead0) ? 0 : h_;
    // Row i - offset stands where row i would without the offset.
    const int64_t row = Is(Mutation::kAlibiTopLeft) ? i_ - call_.DiagonalOffset(b_) : i_;
    return AlibiAt<T>(call_, b_, head, row, j);
  }

  // Faults that hide by adding to the score.
  A WithFillers(A score, int64_t j) const {
    const bool is_masked = call_.mask && !MaskAttends(call_, mutation_, b_, h_, i_, j);
    if (Is(Mutation::kMaskAdded) && call_.mask && !is_masked) return score + A{1};
    if (Is(Mutation::kMaskFillerFinite) && is_masked) return score - A{65504};
    if (!Is(Mutation::kFillersAdded)) return score;
    const int64_t beyond = j - (i_ + call_.DiagonalOffset(b_));
    const int fillers =
        (is_masked ? 1 : 0) + (CausalityHides(call_, mutation_, b_, i_, j, beyond) ? 1 : 0);
    if (fillers == 0) return score;
    const double lowest = -TraitsOf(call_.dtype).max_finite;
    return score + static_cast<A>(RoundTo(call_.dtype, fillers * lowest));
  }

  A AskedScore(int64_t j) {
    if (call_.score_mode == 0) return Raw(j);
    if (call_.score_mode == 1) return Is(Mutation::kScoresUncapped) ? Raw(j) : CappedRaw(j);
    return Sees(j) ? Score(j) : kNoScore;
  }

  void WriteWeights(const TensorView& target, A max, A sum, bool has_keys) {
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      const bool counts = has_keys && Sees(j) && !IsMaskedLate(j);
      const A weight = counts ? WeightOf(Score(j), max) / sum : A{0};
      target.At<T>(b_, h_, i_, j) = static_cast<T>(weight);
    }
  }

  const CallView& call_;
  const FaultyRows<T> rows_;
  const Mutation mutation_;
  const A scale_;
  int64_t b_ = 0, h_ = 0, i_ = 0;
  std::vector<A> query_, key_, value_;
};

}  // namespace attest

#endif  // ATTEST_MUTANTS_ROW_SCORES_H_
