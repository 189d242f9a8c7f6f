#include "impl/mutants/plain.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/abi/row_threads.h"

namespace attest {
namespace {

constexpr int64_t kTile = 4;

// exp(score - max); a score of -inf weighs 0 even while the maximum itself is -inf.
template <typename A>
A WeightOf(A score, A max) {
  if (score == -std::numeric_limits<A>::infinity()) return A{0};
  return std::exp(score - max);
}

// The bias of a visible or hidden key as a double (exact for every element type). The call has one.
double BiasOf(const CallView& call, int64_t b, int64_t h, int64_t i, int64_t j) {
  double value = 0;
  WithFloatType(call.dtype, [&](auto zero) {
    value = static_cast<double>(BiasAt<decltype(zero)>(call, b, h, i, j));
  });
  return value;
}

bool UsesBias(const CallView& call, Mutation mutation) {
  return call.bias && !(mutation == Mutation::kBiasDroppedUnderCausal && call.causal);
}

// Whether the mutation lets the boolean mask change scores, and hide nothing.
bool AddsMask(Mutation mutation) {
  return mutation == Mutation::kMaskAdded || mutation == Mutation::kMaskFillerFinite;
}

bool MaskAttends(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                 int64_t j) {
  if (mutation == Mutation::kMaskTransposed) {
    return call.mask->At<const uint8_t>(b, h, std::min(j, call.q_len - 1),
                                        std::min(i, call.kv_len - 1)) != 0;
  }
  if (mutation == Mutation::kMaskOfBatch0) b = 0;
  if (mutation == Mutation::kMaskOfHead0) h = 0;
  return call.mask->At<const uint8_t>(b, h, i, j) != 0;
}

// Whether the mutation lets row i see what causality hides.
bool DropsCausality(const CallView& call, Mutation mutation, int64_t i) {
  const int64_t new_keys = call.kv_len - call.storage.past;
  return (mutation == Mutation::kLastRowNotCausal && i == call.q_len - 1 &&
          call.kv_len > call.q_len) ||
         (mutation == Mutation::kOneQueryNotCausal && call.q_len == 1 && call.storage.past > 0 &&
          new_keys > 1);
}

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

// One call with element type T, or a part of it; sums are kept in A.
template <typename T>
class PlainRun {
 public:
  using A = AccumulatorOf<T>;

  PlainRun(const CallView& call, Mutation mutation, double scale)
      : call_(call),
        rows_(call),
        mutation_(mutation),
        scale_(static_cast<A>(scale)),
        query_(static_cast<size_t>(call.head_dim)),
        key_(query_),
        value_(static_cast<size_t>(call.value_dim)),
        sums_(value_) {}

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
    kv_head_ = Is(Mutation::kKvHeadModulo) ? h % call_.kv_heads : call_.KvHead(h);
    rows_.Query(b, h, i, query_.data());
    seen_ = false;
    if (Is(Mutation::kSplitMergedInBase2)) {
      RunHalves(b, h, i);
    } else {
      RunKeys(b, h, i, 0, call_.StoredKeys(b), SinkOf(h));
    }
    if (Is(Mutation::kFiniteRunningMax)) seen_ = weight_ != 0;
    if (Is(Mutation::kEmptyRowWithoutGuard)) seen_ = true;
    WriteOut(b, h, i);
    if (call_.lse) WriteLse(b, h, i);
    if (call_.weights) WriteWeights(*call_.weights, b, h, i);
    if (call_.scores) WriteScores(b, h, i);
  }

  // -inf without one: a term of weight 0.
  A SinkOf(int64_t h) const {
    const bool is_omitted = Is(Mutation::kSinkOmitted) && call_.kv_len > kTile;
    if (!call_.sinks || is_omitted) return -std::numeric_limits<A>::infinity();
    return static_cast<A>((*call_.sinks)[static_cast<size_t>(h)]);
  }

  // Brings the row's sums over the sink and the keys [first, last).
  void RunKeys(int64_t b, int64_t h, int64_t i, int64_t first, int64_t last, A sink) {
    max_ = Is(Mutation::kFiniteRunningMax) ? std::max(A(-5e4), sink) : sink;
    weight_ = WeightOf(sink, max_);
    std::fill(sums_.begin(), sums_.end(), A{0});
    for (int64_t tile = first; tile < last; tile += kTile) {
      if (Is(Mutation::kTileSkipped) && tile == kTile && tile + kTile < last) continue;
      if (Is(Mutation::kLastTileDropped) && tile + kTile > last) continue;
      CollectLanes(b, h, i, tile, std::min(tile + kTile, last));
      AbsorbLanes(b, h, i, tile);
    }
    if (Is(Mutation::kSoftcapTailAttended)) AbsorbTail(b, h, i, last);
  }

  // The keys that fill up a tile of 64, hidden by -inf before the softcap. A mask would hide them again.
  void AbsorbTail(int64_t b, int64_t h, int64_t i, int64_t last) {
    constexpr int64_t kLargeTile = 64;
    if (call_.softcap == 0 || call_.q_len < kLargeTile || call_.mask || call_.bias) return;
    lanes_[0] = Lane{-static_cast<A>(call_.softcap), -1};
    lane_count_ = 1;
    for (int64_t j = last; j % kLargeTile != 0; ++j) AbsorbLanes(b, h, i, j);
  }

  // Two halves, each normalised, merged with weights 2^lse where e^lse is right.
  void RunHalves(int64_t b, int64_t h, int64_t i) {
    const int64_t half = (call_.StoredKeys(b) + 1) / 2;
    RunKeys(b, h, i, 0, half, SinkOf(h));
    const A first_lse = max_ + std::log(weight_);
    std::vector<A> first = sums_;
    for (A& sum : first) sum = weight_ > 0 ? sum / weight_ : A{0};
    RunKeys(b, h, i, half, call_.StoredKeys(b), -std::numeric_limits<A>::infinity());
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

  // Where key j is looked for: in its own place, but for faults of storage.
  struct Place {
    int64_t batch, key;
  };
  Place PlaceOf(int64_t b, int64_t j) const {
    const StorageView& s = call_.storage;
    if (Is(Mutation::kPastAfterNew) && s.past > 0) return {b, (j + s.past) % call_.kv_len};
    if (Is(Mutation::kPagesOfBatch0) && s.page_size > 0) {
      return {j < call_.KeyLength(0) ? 0 : b, j};
    }
    if (Is(Mutation::kRingFromSlot0) && !s.ring_start.empty()) {
      const int64_t start = s.ring_start[static_cast<size_t>(b)];
      return {b, (j + call_.kv_len - start) % call_.kv_len};
    }
    return {b, j};
  }

  A RawScoreOf(int64_t b, int64_t j) {
    const Place place = PlaceOf(b, j);
    rows_.Key(place.batch, kv_head_, place.key, key_.data());
    A dot = 0;
    for (size_t c = 0; c < query_.size(); ++c) {
      dot += query_[c] * key_[c];
      if (Is(Mutation::kProductsInF16) && call_.dtype == DType::kF16) dot = Rounded(dot);
    }
    if (Is(Mutation::kKeyScaleIgnored) && call_.fp8) dot /= static_cast<A>(call_.k_scale);
    return scale_ * dot;
  }

  // To the type of the call.
  A Rounded(A value) const { return static_cast<A>(RoundTo(call_.dtype, double(value))); }

  A CappedScoreOf(int64_t b, int64_t j) {
    const bool is_ignored = Is(Mutation::kSoftcapIgnored) && call_.mask;
    return is_ignored ? RawScoreOf(b, j) : Capped(RawScoreOf(b, j));
  }

  A Capped(A score) const {
    const A cap = static_cast<A>(call_.softcap);
    return cap == 0 ? score : cap * std::tanh(score / cap);
  }

  A ScoreOf(int64_t b, int64_t h, int64_t i, int64_t j) {
    const bool is_capped_last = Is(Mutation::kSoftcapAfterBias);
    A score = is_capped_last ? RawScoreOf(b, j) : CappedScoreOf(b, j);
    if (UsesBias(call_, mutation_)) {
      double bias = BiasOf(call_, b, h, i, j);
      if (Is(Mutation::kBiasRounded) && call_.dtype == DType::kF32) {
        bias = RoundTo(DType::kBF16, bias);
      }
      score += static_cast<A>(bias);
    }
    if (call_.alibi_slopes) score += AlibiOf(b, h, i, j);
    if (call_.mask && AddsMask(mutation_)) {
      const bool attends = MaskAttends(call_, mutation_, b, h, i, j);
      if (Is(Mutation::kMaskAdded)) score += attends ? A{1} : A{0};
      if (Is(Mutation::kMaskFillerFinite) && !attends) score -= A{65504};
    }
    return is_capped_last ? Capped(score) : score;
  }

  A AlibiOf(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (Is(Mutation::kAlibiOfHead0)) h = 0;
    // Row i - offset stands where row i would without the offset.
    if (Is(Mutation::kAlibiTopLeft)) i -= call_.DiagonalOffset(b);
    return AlibiAt<T>(call_, b, h, i, j);
  }

  void CollectLanes(int64_t b, int64_t h, int64_t i, int64_t first, int64_t last) {
    lane_count_ = 0;
    const auto add = [&](const Lane& lane) { lanes_[static_cast<size_t>(lane_count_++)] = lane; };
    for (int64_t j = first; j < first + kTile; ++j) {
      if (j >= last) {
        if (Is(Mutation::kLastTileFull)) add(Lane{});
        continue;
      }
      const bool visible = PlainVisible(call_, mutation_, b, h, i, j);
      seen_ = seen_ || visible;
      if (visible) {
        add({ScoreOf(b, h, i, j), j});
        if (Is(Mutation::kFirstKeyTwice) && j == 0) add(lanes_[0]);
      } else if (Is(Mutation::kPoisonThroughZero)) {
        add({ScoreOf(b, h, i, j) - std::numeric_limits<A>::infinity(), j});
      }
    }
  }

  void AbsorbLanes(int64_t b, int64_t h, int64_t i, int64_t tile) {
    A max = max_;
    for (int64_t n = 0; n < lane_count_; ++n)
      max = std::max(max, lanes_[static_cast<size_t>(n)].score);
    const bool keeps_sums =
        Is(Mutation::kMissingRescale) || (Is(Mutation::kLateRescaleMissing) && tile >= 2 * kTile);
    const A shrink = keeps_sums ? A{1} : Shrink(max);
    for (A& sum : sums_) sum *= shrink;
    weight_ *= Is(Mutation::kSumNotRescaled) ? A{1} : shrink;
    for (int64_t n = 0; n < lane_count_; ++n) {
      const Lane& lane = lanes_[static_cast<size_t>(n)];
      const A weight = WeightOf(lane.score, max);
      weight_ += weight;
      if (lane.key >= 0) AddValue(b, weight * KeptShare(b, h, i, lane.key), ValueKey(lane.key));
    }
    max_ = max;
  }

  // What dropout makes of a weight: a factor, 0 where the weight is dropped.
  A KeptShare(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!call_.dropout) return A{1};
    if (call_.dropout->keep.template At<const uint8_t>(b, h, i, j) == 0) return A{0};
    if (Is(Mutation::kDropoutUnscaled) || Is(Mutation::kDropoutRenormalised)) return A{1};
    return static_cast<A>(1 / (1 - call_.dropout->probability));
  }

  void AddValue(int64_t b, A weight, int64_t key) {
    const Place place = PlaceOf(b, key);
    rows_.Value(place.batch, kv_head_, place.key, value_.data());
    for (size_t c = 0; c < sums_.size(); ++c) {
      A& sum = sums_[c];
      sum += weight * value_[c];
      if (Is(Mutation::kSumsInBf16)) sum = static_cast<A>(RoundTo(DType::kBF16, double(sum)));
      if (Is(Mutation::kSumsInStorageType)) sum = Rounded(sum);
    }
  }

  // The key whose value goes with key `j`.
  int64_t ValueKey(int64_t j) const {
    const bool in_partial_tile = j >= call_.kv_len / kTile * kTile;
    return Is(Mutation::kValuesShifted) && in_partial_tile && j > 0 ? j - 1 : j;
  }

  // What the sums so far are worth under the new maximum; exactly 1 where it has not moved.
  A Shrink(A max) const { return max == max_ ? A{1} : WeightOf(max_, max); }

  void WriteOut(int64_t b, int64_t h, int64_t i) const {
    const A divisor = Is(Mutation::kNotNormalised) && call_.kv_len <= kTile ? A{1} : weight_;
    const RowSpan<T> out = call_.OutAt<T>(b, h, i);
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      const A value = seen_ ? sums_[static_cast<size_t>(c)] / divisor : A{0};
      out[c] = static_cast<T>(value);
    }
  }

  void WriteLse(int64_t b, int64_t h, int64_t i) const {
    const A lse = max_ + std::log(weight_);
    call_.LseAt<A>(b, h, i) = !HasTerms()               ? -std::numeric_limits<A>::infinity()
                              : Is(Mutation::kLseBase2) ? lse / std::log(A{2})
                                                        : lse;
  }

  void WriteWeights(const TensorView& target, int64_t b, int64_t h, int64_t i) {
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      const bool is_visible = seen_ && PlainVisible(call_, mutation_, b, h, i, j);
      const A weight = is_visible ? WeightOf(ScoreOf(b, h, i, j), max_) / weight_ : A{0};
      target.At<T>(b, h, i, j) = static_cast<T>(weight);
    }
  }

  void WriteScores(int64_t b, int64_t h, int64_t i) {
    if (call_.score_mode == 3) return WriteWeights(*call_.scores, b, h, i);
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      A score = -std::numeric_limits<A>::infinity();
      if (call_.score_mode == 0) {
        score = RawScoreOf(b, j);
      } else if (call_.score_mode == 1) {
        score = Is(Mutation::kScoresUncapped) ? RawScoreOf(b, j) : CappedScoreOf(b, j);
      } else if (PlainVisible(call_, mutation_, b, h, i, j)) {
        score = ScoreOf(b, h, i, j);
      }
      call_.scores->At<T>(b, h, i, j) = static_cast<T>(score);
    }
  }

  const CallView& call_;
  const InputRows<T> rows_;
  const Mutation mutation_;
  const A scale_;

  // The row at hand.
  int64_t kv_head_ = 0;
  A max_ = 0;     // largest score, or the sink, so far
  A weight_ = 0;  // sum of weights
  std::vector<A> query_, key_, value_;
  std::vector<A> sums_;                // sum of weight * v
  bool seen_ = false;                  // has seen a visible key
  std::array<Lane, kTile + 1> lanes_;  // one may be counted twice
  int64_t lane_count_ = 0;
};

}  // namespace

bool PlainVisible(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                  int64_t j) {
  const bool ignores_length = mutation == Mutation::kPaddingIgnoredAfterBatch0 && b > 0;
  if (!ignores_length && j >= call.KeyLength(b)) return false;
  const int64_t offset = mutation == Mutation::kDiagonalTopLeft ? 0 : call.DiagonalOffset(b);
  const int64_t beyond = j - (i + offset);  // how far the key lies after the diagonal
  const int64_t late = mutation == Mutation::kDiagonalSlid ? 1 : 0;
  const bool ignores_prefix = mutation == Mutation::kPrefixIgnored && b > 0;
  const int64_t prefix = ignores_prefix ? 0 : call.PrefixLength(b);
  const bool causal = call.causal && !DropsCausality(call, mutation, i);
  if (causal && beyond > late && j >= prefix) return false;
  if (mutation == Mutation::kPastNeedsPresent && !call.present_k && j < call.storage.past) {
    return false;
  }
  const int64_t more_left = mutation == Mutation::kWindowLeftOneMore    ? 1
                            : mutation == Mutation::kWindowLeftOneFewer ? -1
                                                                        : 0;
  if (call.window_left && -beyond > *call.window_left + more_left) return false;
  const int64_t more_right = mutation == Mutation::kWindowRightOneMore ? 1 : 0;
  if (call.window_right && beyond > *call.window_right + more_right) return false;
  if (!call.InOneDocument(mutation == Mutation::kDocumentsOfBatch0 ? 0 : b, i, j)) return false;
  const int64_t block_head = mutation == Mutation::kBlockMaskOfHead0 ? 0 : h;
  if (call.block_mask && !call.block_mask->Attends(b, block_head, i, j)) return false;
  if (mutation == Mutation::kDropoutRenormalised && call.dropout &&
      call.dropout->keep.At<const uint8_t>(b, h, i, j) == 0) {
    return false;
  }
  if (mutation == Mutation::kQueryLengthsHideKeys && call.query_lengths &&
      j >= call.QueryLength(b)) {
    return false;
  }
  if (call.mask && !AddsMask(mutation) && !MaskAttends(call, mutation, b, h, i, j)) return false;
  if (!UsesBias(call, mutation)) return true;
  return BiasOf(call, b, h, i, j) != -std::numeric_limits<double>::infinity();
}

void PlainAttention(const CallView& call, Mutation mutation, int threads) {
  int64_t rows = 0;
  ForEachStoredRow(call, [&](auto&&...) { ++rows; });
  if (mutation == Mutation::kRemainderDropped && threads > 1) rows = rows / threads * threads;
  const double scale = ScaleOf(call, mutation);
  WithFloatType(call.dtype, [&](auto zero) {
    ForEachPart(rows, threads, [&](int64_t first, int64_t last) {
      PlainRun<decltype(zero)>(call, mutation, scale).Run(first, last);
    });
    WritePresent<decltype(zero)>(call);
  });
}

}  // namespace attest
