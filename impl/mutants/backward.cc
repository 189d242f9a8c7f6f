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

// dbias, as the call asks for it, and dsink; each is empty where it is not asked for.
template <typename A>
struct SharedSums {
  Shape4 shape{0, 0, 0, 0};  // of dbias
  std::vector<A> dbias, dsink;

  SharedSums(const GradientsView& g, int64_t q_heads) {
    if (g.dbias) shape = g.dbias->shape;
    dbias.resize(static_cast<size_t>(ElementCount(shape)));
    if (g.dsink) dsink.resize(static_cast<size_t>(q_heads));
  }
  A& Bias(int64_t b, int64_t h, int64_t i, int64_t j) {
    const auto at = [&](int64_t index, size_t axis) { return shape[axis] == 1 ? 0 : index; };
    const int64_t row = (at(b, 0) * shape[1] + at(h, 1)) * shape[2] + at(i, 2);
    return dbias[static_cast<size_t>(row * shape[3] + at(j, 3))];
  }
};

template <typename T>
class BackwardRun {
 public:
  using A = AccumulatorOf<T>;

  BackwardRun(const CallView& call, Mutation mutation, int threads,
              const std::vector<double>& deltas)
      : call_(call),
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
      for (int64_t i = 0; i < call_.StoredRows(b); ++i) RunRow(h, i);
    }
    WriteKeys();
  }

  // What a row, no padding, adds to dbias and dsink.
  void Gather(int64_t b, int64_t h, int64_t i, SharedSums<A>& sums) {
    b_ = b, kv_head_ = call_.KvHead(h), h_ = h, i_ = i;
    StartRow();
    for (int64_t j = 0; j < call_.StoredKeys(b) && !sums.dbias.empty(); ++j) {
      if (!Sees(j) || IsLeftOut(sums.shape)) continue;
      const A scale = Is(Mutation::kBiasGradientScaled) ? static_cast<A>(call_.scale) : A{1};
      sums.Bias(b, h, i, j) += PairOf(j, true).dlogit * scale;
    }
    if (sums.dsink.empty() || Delta() == 0) return;
    const A sink = static_cast<A>((*call_.sinks)[static_cast<size_t>(h)]);
    const A part = std::exp(sink - lse_) * Delta();
    sums.dsink[static_cast<size_t>(h)] += Is(Mutation::kSinkGradientNegated) ? part : -part;
  }

 private:
  struct Pair {
    A weight, share, dlogit, slope;
  };

  // Whether the row at hand is one that a shared bias does not hear of.
  bool IsLeftOut(const Shape4& bias) const {
    if (Is(Mutation::kBiasGradientOfLastHead)) return bias[1] == 1 && h_ != call_.q_heads - 1;
    if (Is(Mutation::kBiasGradientOfLastItem)) return bias[0] == 1 && b_ != call_.batch - 1;
    return false;
  }

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
      call_.template DqAt<T>(b_, h, i)[c] = static_cast<T>(dq_[static_cast<size_t>(c)] * scale);
    }
  }

  void StartRow() {
    row_.Start(b_, h_, i_);
    inputs_.Query(b_, h_, i_, query_.data());
    const bool is_misread = Is(Mutation::kPackedDoutOfItem0) && call_.is_packed();
    const RowSpan<const T> dout = call_.template DoutAt<T>(is_misread ? 0 : b_, h_, i_);
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      dout_[static_cast<size_t>(c)] = static_cast<A>(dout[c]);
    }
    lse_ = call_.LseAt<A>(b_, h_, i_);
    if (Is(Mutation::kLseInBf16)) lse_ = static_cast<A>(RoundTo(DType::kBF16, double(lse_)));
  }

  void AddRow() {
    StartRow();
    bool sees_any = false;
    for (int64_t j = 0; j < call_.StoredKeys(b_); ++j) {
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

  // The tile of the block mask, taken for the one on the other side of its diagonal where it is square.
  bool SeesTransposedTile(int64_t j) const {
    const BlockMaskView& mask = *call_.block_mask;
    const int64_t tile_q = i_ / mask.block_q, tile_k = j / mask.block_k;
    const bool is_square = mask.bits.shape[2] == mask.bits.shape[3];
    return is_square ? mask.bits.At<uint8_t>(b_, h_, tile_k, tile_q) != 0
                     : mask.bits.At<uint8_t>(b_, h_, tile_q, tile_k) != 0;
  }

  // What the backward pass takes for visible.
  bool Sees(int64_t j) const {
    const bool is_transposed = Is(Mutation::kBackwardBlocksTransposed) && call_.block_mask;
    if (!is_transposed && row_.Sees(j)) return true;
    const bool has_lse = std::isfinite(lse_);
    if (!has_lse) return false;
    CallView seen = call_;
    if (is_transposed) {
      if (!SeesTransposedTile(j)) return false;
      seen.block_mask.reset();
    }
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

  Pair PairOf(int64_t j, bool sees) {
    Pair pair{0, KeptShare(j), 0, 1};
    const A score = ScoreOf(j, &pair.slope);
    pair.weight = sees ? std::exp(score - lse_) : A{0};
    const std::vector<A>& value = row_.Value(j);
    A dweight = 0;
    for (size_t c = 0; c < value.size(); ++c) dweight += dout_[c] * value[c];
    pair.dlogit = pair.weight * (dweight * pair.share - Delta());
    return pair;
  }

  void AddPair(int64_t j, bool sees) {
    const Pair pair = PairOf(j, sees);
    const A dscore = pair.dlogit * pair.slope;
    inputs_.Key(b_, kv_head_, j, key_.data());
    for (size_t c = 0; c < dq_.size(); ++c) dq_[c] += dscore * key_[c];
    const bool is_last = i_ == call_.QueryLength(b_) - 1;
    if (Is(Mutation::kLastRowAddsNothing) && is_last) return;
    A* dk = dk_.data() + j * call_.head_dim;
    A* dv = dv_.data() + j * call_.value_dim;
    for (int64_t c = 0; c < call_.head_dim; ++c) dk[c] += dscore * query_[static_cast<size_t>(c)];
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      dv[c] += pair.weight * pair.share * dout_[static_cast<size_t>(c)];
    }
  }

  void WriteKeys() const {
    const int64_t keys =
        Is(Mutation::kPaddedGradientsUnwritten) ? call_.KeyLength(b_) : call_.StoredKeys(b_);
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t c = 0; c < call_.head_dim; ++c) {
        const A sum = dk_[static_cast<size_t>(j * call_.head_dim + c)];
        call_.template DkAt<T>(b_, kv_head_, j)[c] =
            static_cast<T>(sum * static_cast<A>(call_.scale));
      }
      for (int64_t c = 0; c < call_.value_dim; ++c) {
        call_.template DvAt<T>(b_, kv_head_, j)[c] =
            static_cast<T>(dv_[static_cast<size_t>(j * call_.value_dim + c)]);
      }
    }
  }

  const CallView& call_;
  const Mutation mutation_;
  const int threads_;
  const std::vector<double>& deltas_;
  const InputRows<T> inputs_;
  RowScores<T> row_;
  int64_t b_ = 0, kv_head_ = 0, h_ = 0, i_ = 0;
  A lse_ = 0;
  std::vector<A> query_, key_, dq_, dout_, dk_, dv_;
};

// Where a row's number stands among [batch, q_heads, q_len].
size_t RowNumber(const CallView& call, int64_t b, int64_t h, int64_t i) {
  return static_cast<size_t>((b * call.q_heads + h) * call.q_len + i);
}

// dout . out of every row; 0 in padding.
template <typename T>
std::vector<double> DeltasOf(const CallView& call) {
  using A = AccumulatorOf<T>;
  std::vector<double> deltas(RowNumber(call, call.batch, 0, 0));
  ForEachStoredRow(call, [&](int64_t b, int64_t h, int64_t i, int64_t) {
    const RowSpan<const T> dout = call.DoutAt<T>(b, h, i);
    const RowSpan<T> out = call.OutAt<T>(b, h, i);
    A sum = 0;
    for (int64_t c = 0; c < call.value_dim && i < call.QueryLength(b); ++c) {
      sum += static_cast<A>(dout[c]) * static_cast<A>(out[c]);
    }
    deltas[RowNumber(call, b, h, i)] = double(sum);
  });
  return deltas;
}

// dbias and dsink, row after row on one thread.
template <typename T>
void WriteShared(const CallView& call, BackwardRun<T>& run) {
  using A = AccumulatorOf<T>;
  const GradientsView& g = *call.gradients;
  SharedSums<A> sums(g, call.q_heads);
  ForEachStoredRow(call, [&](int64_t b, int64_t h, int64_t i, int64_t) {
    if (i < call.QueryLength(b)) run.Gather(b, h, i, sums);
  });
  for (size_t h = 0; h < sums.dsink.size(); ++h) {
    g.dsink->At<A>(static_cast<int64_t>(h), 0, 0, 0) = sums.dsink[h];
  }
  const Shape4& shape = sums.shape;
  const bool is_f32 = call.bias_dtype != call.dtype;
  for (int64_t n = 0; n < static_cast<int64_t>(sums.dbias.size()); ++n) {
    const int64_t row = n / shape[3], h = row / shape[2];
    const Shape4 at{h / shape[1], h % shape[1], row % shape[2], n % shape[3]};
    const A sum = sums.dbias[static_cast<size_t>(n)];
    if (is_f32) {
      g.dbias->At<float>(at[0], at[1], at[2], at[3]) = static_cast<float>(sum);
    } else {
      g.dbias->At<T>(at[0], at[1], at[2], at[3]) = static_cast<T>(sum);
    }
  }
}

// D is put where the lse was, which nobody reads any more.
template <typename T>
void WriteDeltasOverLse(const CallView& call, const std::vector<double>& deltas) {
  ForEachStoredRow(call, [&](int64_t b, int64_t h, int64_t i, int64_t) {
    using A = AccumulatorOf<T>;
    call.LseAt<A>(b, h, i) = static_cast<A>(deltas[RowNumber(call, b, h, i)]);
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
    BackwardRun<T> run(call, mutation, threads, deltas);
    WriteShared<T>(call, run);
    if (mutation == Mutation::kDeltasWrittenOverLse) WriteDeltasOverLse<T>(call, deltas);
  });
}

}  // namespace attest
