#include "impl/mutants/backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/abi/row_threads.h"
#include "impl/mutants/row_scores.h"
#include "impl/mutants/visible.h"

namespace attest {
namespace {

template <typename T>
class BackwardRun {
 public:
  using A = AccumulatorOf<T>;

  BackwardRun(const CallView& call, Mutation mutation, int threads,
              const std::vector<double>& deltas)
      : call_(call),
        g_(*call.gradients),
        mutation_(mutation),
        threads_(threads),
        deltas_(deltas),
        inputs_(call),
        row_(call, Mutation::kNone, call.scale),
        query_(static_cast<size_t>(call.head_dim)),
        key_(query_),
        dq_(query_),
        dout_(static_cast<size_t>(call.value_dim)) {}

  // One kv head and its query heads.
  void Run(int64_t b, int64_t kv_head) {
    b_ = b, kv_head_ = kv_head;
    dk_.assign(static_cast<size_t>(call_.kv_len * call_.head_dim), A{0});
    dv_.assign(static_cast<size_t>(call_.kv_len * call_.value_dim), A{0});
    const int64_t group = call_.q_heads / call_.kv_heads;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      if (Is(Mutation::kGroupGradientOfLastHead)) ClearKeySums();
      for (int64_t i = 0; i < call_.q_len; ++i) RunRow(h, i);
    }
    WriteKeys();
  }

 private:
  bool Is(Mutation mutation) const { return mutation_ == mutation; }

  void ClearKeySums() {
    std::fill(dk_.begin(), dk_.end(), A{0});
    std::fill(dv_.begin(), dv_.end(), A{0});
  }

  void RunRow(int64_t h, int64_t i) {
    h_ = h, i_ = i;
    std::fill(dq_.begin(), dq_.end(), A{0});
    if (i < call_.QueryLength(b_)) AddRow();
    const bool has_no_scale = Is(Mutation::kQueryGradientUnscaled);
    for (int64_t c = 0; c < call_.head_dim; ++c) {
      const A scale = has_no_scale ? A{1} : static_cast<A>(call_.scale);
      g_.dq.At<T>(b_, h, i, c) = static_cast<T>(dq_[static_cast<size_t>(c)] * scale);
    }
  }

  void AddRow() {
    row_.Start(b_, h_, i_);
    inputs_.Query(b_, h_, i_, query_.data());
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      dout_[static_cast<size_t>(c)] = static_cast<A>(g_.dout.At<const T>(b_, h_, i_, c));
    }
    lse_ = call_.LseAt<A>(b_, h_, i_);
    if (Is(Mutation::kLseInBf16)) lse_ = static_cast<A>(RoundTo(DType::kBF16, double(lse_)));
    bool sees_any = false;
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      // Threads take halves of the keys, and add what they have at the seam.
      const bool is_seam = Is(Mutation::kPartsOfThreadsRounded) && threads_ > 1 && j == 2;
      if (is_seam) RoundParts();
      const bool sees = Sees(j);
      sees_any = sees_any || sees;
      if (sees || Is(Mutation::kHiddenPairTimesZero)) AddPair(j, sees);
    }
    if (Is(Mutation::kBlindRowGradientNan) && !sees_any) {
      std::fill(dq_.begin(), dq_.end(), std::numeric_limits<A>::quiet_NaN());
    }
  }

  void RoundParts() {
    for (A& sum : dq_) sum = static_cast<A>(RoundTo(DType::kBF16, double(sum)));
  }

  // What the backward pass takes for visible.
  bool Sees(int64_t j) const {
    if (row_.Sees(j)) return true;
    const bool has_lse = std::isfinite(lse_);
    if (!has_lse) return false;
    CallView seen = call_;
    if (Is(Mutation::kBackwardMaskIgnored)) seen.mask.reset();
    if (Is(Mutation::kBackwardCausalIgnored)) seen.causal = false;
    if (Is(Mutation::kBackwardLengthsIgnored)) seen.key_lengths.reset();
    return PlainVisible(seen, Mutation::kNone, b_, h_, i_, j);
  }

  A ScoreOf(int64_t j, A* slope) {
    const A raw = row_.Raw(j);
    A score = raw;
    if (call_.softcap != 0) {
      const A tanh = std::tanh(raw / static_cast<A>(call_.softcap));
      score = static_cast<A>(call_.softcap) * tanh;
      if (!Is(Mutation::kSoftcapSlopeOmitted)) *slope = 1 - tanh * tanh;
    }
    if (call_.bias) score += BiasAt<T>(call_, b_, h_, i_, j);
    const bool adds_alibi = call_.alibi_slopes && !Is(Mutation::kBackwardAlibiIgnored);
    return adds_alibi ? score + AlibiAt<T>(call_, b_, h_, i_, j) : score;
  }

  A KeptShare(int64_t j) const {
    if (!call_.dropout) return A{1};
    const int64_t head = Is(Mutation::kBackwardDropoutOfHead0) ? 0 : h_;
    if (call_.dropout->keep.template At<const uint8_t>(b_, head, i_, j) == 0) return A{0};
    if (Is(Mutation::kBackwardDropoutUnscaled)) return A{1};
    return static_cast<A>(1 / (1 - call_.dropout->probability));
  }

  A Delta() const {
    const bool is_last = i_ == call_.QueryLength(b_) - 1;
    if (Is(Mutation::kDeltaOmittedInLastRow) && is_last) return A{0};
    const int64_t row = (b_ * call_.q_heads + h_) * call_.q_len + i_;
    return static_cast<A>(deltas_[static_cast<size_t>(row)]);
  }

  void AddPair(int64_t j, bool sees) {
    A slope = 1;
    const A score = ScoreOf(j, &slope);
    const A weight = sees ? std::exp(score - lse_) : A{0};
    const A share = KeptShare(j);
    const std::vector<A>& value = row_.Value(j);
    A dweight = 0;
    for (size_t c = 0; c < value.size(); ++c) dweight += dout_[c] * value[c];
    const A dscore = weight * (dweight * share - Delta()) * slope;
    inputs_.Key(b_, kv_head_, j, key_.data());
    for (size_t c = 0; c < dq_.size(); ++c) dq_[c] += dscore * key_[c];
    const bool is_last = i_ == call_.QueryLength(b_) - 1;
    if (Is(Mutation::kLastRowAddsNothing) && is_last) return;
    A* dk = dk_.data() + j * call_.head_dim;
    A* dv = dv_.data() + j * call_.value_dim;
    for (int64_t c = 0; c < call_.head_dim; ++c) dk[c] += dscore * query_[static_cast<size_t>(c)];
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      dv[c] += weight * share * dout_[static_cast<size_t>(c)];
    }
  }

  void WriteKeys() const {
    const int64_t keys =
        Is(Mutation::kPaddedGradientsUnwritten) ? call_.KeyLength(b_) : call_.kv_len;
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t c = 0; c < call_.head_dim; ++c) {
        const A sum = dk_[static_cast<size_t>(j * call_.head_dim + c)];
        g_.dk.At<T>(b_, kv_head_, j, c) = static_cast<T>(sum * static_cast<A>(call_.scale));
      }
      for (int64_t c = 0; c < call_.value_dim; ++c) {
        g_.dv.At<T>(b_, kv_head_, j, c) =
            static_cast<T>(dv_[static_cast<size_t>(j * call_.value_dim + c)]);
      }
    }
  }

  const CallView& call_;
  const GradientsView& g_;
  const Mutation mutation_;
  const int threads_;
  const std::vector<double>& deltas_;
  const InputRows<T> inputs_;
  RowScores<T> row_;
  int64_t b_ = 0, kv_head_ = 0, h_ = 0, i_ = 0;
  A lse_ = 0;
  std::vector<A> query_, key_, dq_, dout_, dk_, dv_;
};

// dout . out of every row.
template <typename T>
std::vector<double> DeltasOf(const CallView& call) {
  using A = AccumulatorOf<T>;
  std::vector<double> deltas;
  ForEachStoredRow(call, [&](int64_t b, int64_t h, int64_t i, int64_t) {
    A sum = 0;
    for (int64_t c = 0; c < call.value_dim && i < call.QueryLength(b); ++c) {
      sum += static_cast<A>(call.gradients->dout.At<const T>(b, h, i, c)) *
             static_cast<A>(call.out.At<const T>(b, h, i, c));
    }
    deltas.push_back(double(sum));
  });
  return deltas;
}

// D is put where the lse was, which nobody reads any more.
template <typename T>
void WriteDeltasOverLse(const CallView& call, const std::vector<double>& deltas) {
  size_t n = 0;
  ForEachStoredRow(call, [&](int64_t b, int64_t h, int64_t i, int64_t) {
    call.LseAt<AccumulatorOf<T>>(b, h, i) = static_cast<AccumulatorOf<T>>(deltas[n++]);
  });
}

}  // namespace

void PlainBackward(const CallView& call, Mutation mutation, int threads, BackwardState& state) {
  WithFloatType(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<double> deltas = DeltasOf<T>(call);
    if (mutation == Mutation::kDeltasOfLastCall) {
      const std::lock_guard lock(state.mutex);
      std::vector<double> own = deltas;
      if (state.deltas.size() == deltas.size()) deltas = state.deltas;
      state.deltas = std::move(own);
    }
    ForEachPart(call.batch * call.kv_heads, threads, [&](int64_t first, int64_t last) {
      BackwardRun<T> run(call, mutation, threads, deltas);
      for (int64_t n = first; n < last; ++n) run.Run(n / call.kv_heads, n % call.kv_heads);
    });
    if (mutation == Mutation::kDeltasWrittenOverLse) WriteDeltasOverLse<T>(call, deltas);
  });
}

}  // namespace attest
