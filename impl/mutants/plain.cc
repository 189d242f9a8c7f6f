#include "impl/mutants/plain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "impl/abi/float_types.h"

namespace attest {
namespace {

constexpr int64_t kTile = 4;

// exp(score - max); a score of -inf weighs 0 even while the maximum itself is -inf.
template <typename A>
A WeightOf(A score, A max) {
  if (score == -std::numeric_limits<A>::infinity()) return A{0};
  return std::exp(score - max);
}

// The bias of a visible or hidden key as a double (exact for every element type); 0 without one.
double BiasAt(const CallView& call, int64_t b, int64_t h, int64_t i, int64_t j) {
  double value = 0;
  if (!call.bias) return value;
  WithFloatType(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    value = static_cast<double>(call.bias->At<const T>(b, h, i, j));
  });
  return value;
}

bool UsesBias(const CallView& call, Mutation mutation) {
  return call.bias && !(mutation == Mutation::kBiasDroppedUnderCausal && call.causal);
}

bool MaskAttends(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                 int64_t j) {
  if (mutation == Mutation::kMaskTransposed) {
    return call.mask->At<const uint8_t>(b, h, std::min(j, call.q_len - 1),
                                        std::min(i, call.kv_len - 1)) != 0;
  }
  return call.mask->At<const uint8_t>(b, h, i, j) != 0;
}

// One call with element type T; sums are kept in A.
template <typename T>
class PlainRun {
 public:
  using A = AccumulatorOf<T>;

  PlainRun(const CallView& call, Mutation mutation)
      : call_(call),
        mutation_(mutation),
        scale_(static_cast<A>(call.scale)),
        sums_(static_cast<size_t>(call.value_dim)) {}

  void Run() {
    for (int64_t b = 0; b < call_.batch; ++b) {
      for (int64_t h = 0; h < call_.q_heads; ++h) {
        for (int64_t i = 0; i < call_.q_len; ++i) RunRow(b, h, i);
      }
    }
  }

 private:
  // A key of the tile at hand that takes part in the row's sums.
  struct Lane {
    A score = 0;
    int64_t key = -1;  // -1: padding, whose value is 0
  };

  bool Is(Mutation mutation) const { return mutation_ == mutation; }

  void RunRow(int64_t b, int64_t h, int64_t i) {
    kv_head_ = Is(Mutation::kKvHeadModulo) ? h % call_.kv_heads : call_.KvHead(h);
    max_ = Is(Mutation::kFiniteRunningMax) ? A(-5e4) : -std::numeric_limits<A>::infinity();
    weight_ = 0;
    seen_ = false;
    std::fill(sums_.begin(), sums_.end(), A{0});
    for (int64_t first = 0; first < call_.kv_len; first += kTile) {
      CollectLanes(b, h, i, first);
      AbsorbLanes(b);
    }
    if (Is(Mutation::kFiniteRunningMax)) seen_ = weight_ != 0;
    if (Is(Mutation::kEmptyRowWithoutGuard)) seen_ = true;
    WriteOut(b, h, i);
    if (call_.lse) {
      call_.lse->At<A>(b, h, i, 0) =
          seen_ ? max_ + std::log(weight_) : -std::numeric_limits<A>::infinity();
    }
    if (call_.weights) WriteWeights(b, h, i);
  }

  A ScoreOf(int64_t b, int64_t h, int64_t i, int64_t j) const {
    A dot = 0;
    for (int64_t c = 0; c < call_.head_dim; ++c) {
      dot += static_cast<A>(call_.q.At<const T>(b, h, i, c)) *
             static_cast<A>(call_.k.At<const T>(b, kv_head_, j, c));
    }
    A score = scale_ * dot;
    if (UsesBias(call_, mutation_)) score += static_cast<A>(BiasAt(call_, b, h, i, j));
    return score;
  }

  void CollectLanes(int64_t b, int64_t h, int64_t i, int64_t first) {
    lane_count_ = 0;
    const auto add = [&](const Lane& lane) { lanes_[static_cast<size_t>(lane_count_++)] = lane; };
    for (int64_t j = first; j < first + kTile; ++j) {
      if (j >= call_.kv_len) {
        if (Is(Mutation::kLastTileFull)) add(Lane{});
        continue;
      }
      const bool visible = PlainVisible(call_, mutation_, b, h, i, j);
      seen_ = seen_ || visible;
      if (visible) {
        add({ScoreOf(b, h, i, j), j});
      } else if (Is(Mutation::kPoisonThroughZero)) {
        add({ScoreOf(b, h, i, j) - std::numeric_limits<A>::infinity(), j});
      }
    }
  }

  void AbsorbLanes(int64_t b) {
    A max = max_;
    for (int64_t n = 0; n < lane_count_; ++n)
      max = std::max(max, lanes_[static_cast<size_t>(n)].score);
    const A shrink = Is(Mutation::kMissingRescale) ? A{1} : Shrink(max);
    for (A& sum : sums_) sum *= shrink;
    weight_ *= shrink;
    for (int64_t n = 0; n < lane_count_; ++n) {
      const Lane& lane = lanes_[static_cast<size_t>(n)];
      const A weight = WeightOf(lane.score, max);
      weight_ += weight;
      if (lane.key < 0) continue;
      for (int64_t c = 0; c < call_.value_dim; ++c) {
        sums_[static_cast<size_t>(c)] +=
            weight * static_cast<A>(call_.v.At<const T>(b, kv_head_, lane.key, c));
      }
    }
    max_ = max;
  }

  // What the sums so far are worth under the new maximum; exactly 1 where it has not moved.
  A Shrink(A max) const { return max == max_ ? A{1} : WeightOf(max_, max); }

  void WriteOut(int64_t b, int64_t h, int64_t i) const {
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      const A value = seen_ ? sums_[static_cast<size_t>(c)] / weight_ : A{0};
      call_.out.At<T>(b, h, i, c) = static_cast<T>(value);
    }
  }

  void WriteWeights(int64_t b, int64_t h, int64_t i) const {
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      A weight = 0;
      if (PlainVisible(call_, mutation_, b, h, i, j)) {
        weight = WeightOf(ScoreOf(b, h, i, j), max_);
      }
      call_.weights->At<T>(b, h, i, j) = static_cast<T>(seen_ ? weight / weight_ : A{0});
    }
  }

  const CallView& call_;
  const Mutation mutation_;
  const A scale_;

  // The row at hand.
  int64_t kv_head_ = 0;
  A max_ = 0;            // largest score so far
  A weight_ = 0;         // sum of weights
  std::vector<A> sums_;  // sum of weight * v
  bool seen_ = false;    // has seen a visible key
  std::array<Lane, kTile> lanes_;
  int64_t lane_count_ = 0;
};

}  // namespace

bool PlainVisible(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                  int64_t j) {
  const bool ignores_length = mutation == Mutation::kPaddingIgnoredAfterBatch0 && b > 0;
  if (!ignores_length && j >= call.KeyLength(b)) return false;
  const int64_t offset = mutation == Mutation::kDiagonalTopLeft ? 0 : call.DiagonalOffset(b);
  const int64_t beyond = j - (i + offset);  // how far the key lies after the diagonal
  if (call.causal && beyond > 0) return false;
  if (call.window_left && -beyond > *call.window_left) return false;
  if (call.window_right && beyond > *call.window_right) return false;
  if (call.mask && !MaskAttends(call, mutation, b, h, i, j)) return false;
  if (!UsesBias(call, mutation)) return true;
  return BiasAt(call, b, h, i, j) != -std::numeric_limits<double>::infinity();
}

void PlainAttention(const CallView& call, Mutation mutation) {
  WithFloatType(call.dtype, [&](auto zero) { PlainRun<decltype(zero)>(call, mutation).Run(); });
}

}  // namespace attest
