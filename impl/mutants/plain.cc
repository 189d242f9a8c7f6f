#include "impl/mutants/plain.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/abi/row_threads.h"
#include "impl/mutants/row_scores.h"
#include "impl/mutants/visible.h"

namespace attest {
namespace {

constexpr int64_t kTile = 4;

// The scale as planned, in the one place that all calls plan in. The first plan of a thread is under way
// for long, and a call that begins meanwhile replaces it.
double PlannedScale(double scale) {
  static std::atomic<double> plan;
  thread_local bool has_planned = false;
  plan = scale;
  if (!has_planned) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  has_planned = true;
  return plan;
}

double ScaleOf(const CallView& call, Mutation mutation) {
  if (mutation == Mutation::kPlanShared) return PlannedScale(call.scale);
  if (mutation == Mutation::kScaleTwice) return call.scale * call.scale;
  const bool is_power_of_two = (call.head_dim & (call.head_dim - 1)) == 0;
  return mutation == Mutation::kScaleLeftOut && !is_power_of_two ? 1 : call.scale;
}

// One call with element type T, or a part of it; sums are kept in A.
template <typename T>
class PlainRun {
 public:
  using A = AccumulatorOf<T>;

  PlainRun(const CallView& call, Mutation mutation, double scale)
      : call_(call),
        mutation_(mutation),
        row_(call, mutation, scale),
        sums_(static_cast<size_t>(call.value_dim)) {}

  // Computes the rows with the numbers [first, last), in the order of ForEachStoredRow.
  void Run(int64_t first, int64_t last) {
    int64_t number = 0;
    ForEachStoredRow(call_, [&](int64_t b, int64_t h, int64_t i, int64_t rows) {
      const bool is_left_out =
          Is(Mutation::kRowUnwritten) && i % kTile != kTile - 1 && i == rows - 1;
      if (number >= first && number < last && !is_left_out) RunRow(b, h, i);
      ++number;
    });
  }

 private:
  // A key of the tile at hand that takes part in the row's sums.
  struct Lane {
    A score = 0;
    int64_t key = -1;  // -1: padding, whose value is 0
  };

  bool Is(Mutation mutation) const { return mutation_ == mutation; }

  void RunRow(int64_t b, int64_t h, int64_t i) {
    b_ = b;
    row_.Start(b, h, i);
    seen_ = false;
    const bool omits_sink = Is(Mutation::kSinkOmitted) && call_.kv_len > kTile;
    const A sink = omits_sink ? kNoScore : row_.Sink();
    if (Is(Mutation::kSplitMergedInBase2)) {
      RunHalves(sink);
    } else {
      RunKeys(0, call_.StoredKeys(b), sink);
    }
    if (Is(Mutation::kFiniteRunningMax)) seen_ = weight_ != 0;
    if (Is(Mutation::kEmptyRowWithoutGuard) || Is(Mutation::kHiddenScoresLowest)) seen_ = true;
    const bool is_left_out = Is(Mutation::kOutOfNoKeysUnwritten) && call_.KeyLength(b) == 0;
    if (!is_left_out) WriteOut(h, i);
    if (call_.lse) WriteLse(h, i);
    row_.WriteKeyOutputs(max_, weight_, seen_);
  }

  // The maximum before any key.
  A StartingMaximum(A sink) const {
    if (Is(Mutation::kFiniteRunningMax)) return std::max(A(-5e4), sink);
    if (Is(Mutation::kHiddenScoresLowest)) return std::max(kLowest, sink);
    return sink;
  }

  // Brings the row's sums over the sink and the keys [first, last).
  void RunKeys(int64_t first, int64_t last, A sink) {
    const bool has_late_sink = Is(Mutation::kSinkNotInMaximum) && call_.sinks;
    max_ = StartingMaximum(has_late_sink ? kNoScore : sink);
    weight_ = has_late_sink ? A{0} : WeightOf(sink, max_);
    std::fill(sums_.begin(), sums_.end(), A{0});
    for (int64_t tile = first; tile < last; tile += kTile) {
      if (Is(Mutation::kTileSkipped) && tile == kTile && tile + kTile < last) continue;
      if (Is(Mutation::kLastTileDropped) && tile + kTile > last) continue;
      CollectLanes(tile, std::min(tile + kTile, last));
      AbsorbLanes(tile);
    }
    if (Is(Mutation::kSoftcapTailAttended)) AbsorbTail(last);
    if (has_late_sink) weight_ += WeightOf(sink, max_);
  }

  // The keys that fill up a tile of 64, hidden by -inf before the softcap. A mask would hide them again.
  void AbsorbTail(int64_t last) {
    constexpr int64_t kLargeTile = 64;
    if (call_.softcap == 0 || call_.q_len < kLargeTile || call_.mask || call_.bias) return;
    lanes_[0] = Lane{-static_cast<A>(call_.softcap), -1};
    lane_count_ = 1;
    for (int64_t j = last; j % kLargeTile != 0; ++j) AbsorbLanes(j);
  }

  // Two halves, each normalised, merged with weights 2^lse where e^lse is right.
  void RunHalves(A sink) {
    const int64_t half = (call_.StoredKeys(b_) + 1) / 2;
    RunKeys(0, half, sink);
    const A first_lse = max_ + std::log(weight_);
    std::vector<A> first = sums_;
    for (A& sum : first) sum = weight_ > 0 ? sum / weight_ : A{0};
    RunKeys(half, call_.StoredKeys(b_), kNoScore);
    const A second_lse = max_ + std::log(weight_);
    const A second_sum = weight_;
    max_ = std::max(first_lse, second_lse);
    const A whole = A(HasTerms() ? 1 : 0);
    const A first_weight = first_lse < max_ ? std::exp2(first_lse - max_) : whole;
    const A second_weight = second_lse < max_ ? std::exp2(second_lse - max_) : whole;
    weight_ = first_weight + second_weight;
    for (size_t c = 0; c < sums_.size(); ++c) {
      const A second = second_sum > 0 ? sums_[c] / second_sum : A{0};
      sums_[c] = first_weight * first[c] + second_weight * second;
    }
  }

  bool HasTerms() const { return seen_ || call_.sinks; }

  void Add(A score, int64_t key) { lanes_[static_cast<size_t>(lane_count_++)] = Lane{score, key}; }

  void CollectLanes(int64_t first, int64_t last) {
    lane_count_ = 0;
    for (int64_t j = first; j < first + kTile; ++j) {
      if (j >= last) {
        if (Is(Mutation::kLastTileFull)) Add(0, -1);
        continue;
      }
      const bool visible = row_.Sees(j);
      seen_ = seen_ || visible;
      if (!visible) {
        AddHidden(first, j);
      } else if (!row_.IsLost(j)) {
        Add(row_.Score(j), j);
        if (Is(Mutation::kFirstKeyTwice) && j == 0) Add(lanes_[0].score, 0);
      }
    }
  }

  // What some faults make of a hidden key of the tile that begins at `first`.
  void AddHidden(int64_t first, int64_t j) {
    if (Is(Mutation::kPoisonThroughZero)) Add(row_.Score(j) + kNoScore, j);
    if (Is(Mutation::kHiddenScoresLowest)) Add(kLowest, j);
    const int64_t length = call_.KeyLength(b_);
    if (Is(Mutation::kTailValuesPoisoned) && first < length && j >= length) Add(kNoScore, j);
  }

  void AbsorbLanes(int64_t tile) {
    A max = max_;
    for (int64_t n = 0; n < lane_count_; ++n)
      max = std::max(max, lanes_[static_cast<size_t>(n)].score);
    if (Is(Mutation::kConstantSubtracted)) max = A{10};
    const bool keeps_sums =
        Is(Mutation::kMissingRescale) || (Is(Mutation::kLateRescaleMissing) && tile >= 2 * kTile);
    const A shrink = keeps_sums ? A{1} : Shrink(max);
    const A values_shrink = Is(Mutation::kValuesNotRescaled) ? A{1} : shrink;
    for (A& sum : sums_) sum *= values_shrink;
    weight_ *= Is(Mutation::kSumNotRescaled) ? A{1} : shrink;
    for (int64_t n = 0; n < lane_count_; ++n) AbsorbLane(lanes_[static_cast<size_t>(n)], max);
    max_ = max;
  }

  void AbsorbLane(const Lane& lane, A max) {
    const A weight = WeightOf(lane.score, max);
    weight_ += weight;
    if (lane.key < 0 || row_.IsMaskedLate(lane.key)) return;
    if (Is(Mutation::kHiddenScoresLowest) && weight == 0) return;
    AddValue(weight * row_.KeptShare(lane.key), ValueKey(lane.key));
  }

  void AddValue(A weight, int64_t key) {
    const std::vector<A>& value = row_.Value(key);
    for (size_t c = 0; c < sums_.size(); ++c) {
      A& sum = sums_[c];
      sum += weight * value[c];
      if (Is(Mutation::kSumsInBf16)) sum = static_cast<A>(RoundTo(DType::kBF16, double(sum)));
      if (Is(Mutation::kSumsInStorageType)) sum = row_.Rounded(sum);
    }
  }

  // The key whose value goes with key `j`.
  int64_t ValueKey(int64_t j) const {
    const bool in_partial_tile = j >= call_.kv_len / kTile * kTile;
    return Is(Mutation::kValuesShifted) && in_partial_tile && j > 0 ? j - 1 : j;
  }

  // What the sums so far are worth under the new maximum; exactly 1 where it has not moved.
  A Shrink(A max) const { return max == max_ ? A{1} : WeightOf(max_, max); }

  void WriteOut(int64_t h, int64_t i) const {
    const A divisor = Is(Mutation::kNotNormalised) && call_.kv_len <= kTile ? A{1} : weight_;
    RowSpan<T> out = call_.OutAt<T>(b_, h, i);
    if (Is(Mutation::kOutOffsetIn32Bits))
      out.data = CutOffset(static_cast<T*>(call_.out.data), out.data);
    const bool is_short = Is(Mutation::kValueLanesByHeadDim);
    const int64_t lanes = is_short ? std::min(call_.value_dim, call_.head_dim) : call_.value_dim;
    for (int64_t c = 0; c < lanes; ++c) {
      const A value = seen_ ? sums_[static_cast<size_t>(c)] / divisor : A{0};
      out[c] = Is(Mutation::kOutputTruncated) ? CutOff(value) : static_cast<T>(value);
    }
  }

  // Rounded towards 0 where T has 16 bits.
  static T CutOff(A value) {
    T rounded = static_cast<T>(value);
    if constexpr (sizeof(T) == sizeof(uint16_t)) {
      if (std::abs(static_cast<A>(rounded)) > std::abs(value)) {
        rounded = std::bit_cast<T>(static_cast<uint16_t>(std::bit_cast<uint16_t>(rounded) - 1));
      }
    }
    return rounded;
  }

  void WriteLse(int64_t h, int64_t i) const {
    const A of_empty = Is(Mutation::kLseOfEmptyRowPositive) ? -kNoScore : kNoScore;
    const A lse = max_ + std::log(weight_);
    call_.LseAt<A>(b_, h, i) = !HasTerms()               ? of_empty
                               : Is(Mutation::kLseBase2) ? lse / std::log(A{2})
                                                         : lse;
  }

  static constexpr A kNoScore = RowScores<T>::kNoScore;
  static constexpr A kLowest = std::numeric_limits<A>::lowest();

  const CallView& call_;
  const Mutation mutation_;
  RowScores<T> row_;

  // The row at hand.
  int64_t b_ = 0;
  A max_ = 0;                          // largest score, or the sink, so far
  A weight_ = 0;                       // sum of weights
  std::vector<A> sums_;                // sum of weight * v
  bool seen_ = false;                  // has seen a visible key
  std::array<Lane, kTile + 1> lanes_;  // one may be counted twice
  int64_t lane_count_ = 0;
};

// Keys and values at other places: the new ones before those of the past, or position by position, all heads of
// each.
template <typename T>
void WriteMisplacedPresent(const CallView& call, Mutation mutation) {
  const bool by_position = mutation == Mutation::kFirstPresentByPosition;
  const FaultyRows<T> rows(call, by_position ? Mutation::kNone : Mutation::kPastAfterNew);
  std::vector<AccumulatorOf<T>> row(static_cast<size_t>(std::max(call.head_dim, call.value_dim)));
  const auto write = [&](const TensorView& target, int64_t b, int64_t h, int64_t j) {
    for (int64_t c = 0; c < target.shape[3]; ++c) {
      target.At<T>(b, h, j, c) = static_cast<T>(row[static_cast<size_t>(c)]);
    }
  };
  for (int64_t b = 0; b < call.batch; ++b)
    for (int64_t h = 0; h < call.kv_heads; ++h)
      for (int64_t j = 0; j < call.kv_len; ++j) {
        const int64_t at = h * call.kv_len + j;
        const int64_t kv_head = by_position ? at % call.kv_heads : h;
        const int64_t key = by_position ? at / call.kv_heads : j;
        const int64_t head = kv_head * (call.q_heads / call.kv_heads);
        rows.Key(b, head, key, row.data());
        if (call.present_k) write(*call.present_k, b, h, j);
        rows.Value(b, head, key, row.data());
        if (call.present_v) write(*call.present_v, b, h, j);
      }
}

bool MisplacesPresent(const CallView& call, Mutation mutation) {
  if (!call.present_k && !call.present_v) return false;
  return mutation == Mutation::kPresentNewFirst ||
         (mutation == Mutation::kFirstPresentByPosition && !call.storage.has_past);
}

// The present of K's size where the mutation forgets that V has its own.
template <typename T>
void WriteFaultyPresent(const CallView& call, Mutation mutation) {
  if (MisplacesPresent(call, mutation)) return WriteMisplacedPresent<T>(call, mutation);
  CallView seen = call;
  if (mutation == Mutation::kPresentValuesByHeadDim && seen.present_v) {
    int64_t& lanes = seen.present_v->shape[3];
    lanes = std::min(lanes, call.head_dim);
  }
  WritePresent<T>(seen);
}

}  // namespace

void PlainAttention(const CallView& call, Mutation mutation, int threads) {
  int64_t rows = 0;
  ForEachStoredRow(call, [&](auto&&...) { ++rows; });
  if (mutation == Mutation::kRemainderDropped && threads > 1) rows = rows / threads * threads;
  const double scale = ScaleOf(call, mutation);
  WithFloatType(call.dtype, [&](auto zero) {
    ForEachPart(rows, threads, [&](int64_t first, int64_t last) {
      PlainRun<decltype(zero)>(call, mutation, scale).Run(first, last);
    });
    WriteFaultyPresent<decltype(zero)>(call, mutation);
  });
}

}  // namespace attest
