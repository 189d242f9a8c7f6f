#include "impl/mutants/blocked.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/abi/row_threads.h"
#include "impl/mutants/row_scores.h"
#include "impl/mutants/visible.h"

namespace attest {
namespace {

constexpr int64_t kTile = 4;   // queries, and keys
constexpr int64_t kSplit = 8;  // keys: fixed, so that more keys change no bit of what was there

// Rows of one batch item and head, and keys of it: half-open.
struct Tile {
  int64_t batch = 0;
  int64_t row_begin = 0, row_end = 0;
  int64_t key_begin = 0, key_end = 0;
};

enum class TileUse {
  kSkipped,  // no row sees any key
  kWhole,    // every row sees every key
  kByKey,
};

// What is known of a tile from its corners alone.
class TileRules {
 public:
  TileRules(const CallView& call, Mutation mutation) : call_(call), mutation_(mutation) {}

  TileUse UseOf(const Tile& tile) const {
    const Corners c = CornersOf(tile);
    if (IsHidden(tile, c)) return TileUse::kSkipped;
    return IsVisible(tile, c) ? TileUse::kWhole : TileUse::kByKey;
  }

 private:
  // How far a key lies after a row's diagonal: of the first key and last row (the least), and so on.
  struct Corners {
    int64_t least = 0, most = 0;  // over the whole tile
    int64_t last = 0;             // of the last key from the last row's diagonal
  };

  bool Is(Mutation mutation) const { return mutation_ == mutation; }

  Corners CornersOf(const Tile& tile) const {
    const int64_t offset = call_.DiagonalOffset(tile.batch);
    const int64_t first_diagonal = tile.row_begin + offset;
    const int64_t last_diagonal = tile.row_end - 1 + offset;
    return {tile.key_begin - last_diagonal, tile.key_end - 1 - first_diagonal,
            tile.key_end - 1 - last_diagonal};
  }

  bool IsHidden(const Tile& tile, const Corners& c) const {
    if (tile.key_begin >= call_.KeyLength(tile.batch)) return true;
    const int64_t after = Is(Mutation::kDiagonalTileSkipped) ? c.last : c.least;
    if (call_.causal && after > 0 && tile.key_begin >= call_.PrefixLength(tile.batch)) return true;
    if (call_.window_right && c.least > *call_.window_right) return true;
    const int64_t before = Is(Mutation::kWindowTileSkipped) ? -c.least : -c.most;
    return call_.window_left && before > *call_.window_left;
  }

  bool IsVisible(const Tile& tile, const Corners& c) const {
    if (call_.mask || call_.bias || call_.documents || call_.block_mask) return false;
    const bool is_in_length = tile.key_end <= call_.KeyLength(tile.batch);
    if (!is_in_length && !Is(Mutation::kLengthTileFull)) return false;
    const int64_t after = Is(Mutation::kDiagonalTileFull) ? c.last : c.most;
    if (call_.causal && after > 0) return false;
    if (call_.window_right && c.most > *call_.window_right) return false;
    return !call_.window_left || -c.least <= *call_.window_left;
  }

  const CallView& call_;
  const Mutation mutation_;
};

// Sums over some keys of a row, relative to their largest score.
template <typename A>
struct Part {
  A max = -std::numeric_limits<A>::infinity();
  A weight = 0;
  std::vector<A> sums;

  bool is_empty() const { return max == -std::numeric_limits<A>::infinity() && weight == 0; }
};

template <typename T>
class BlockedRun {
 public:
  using A = AccumulatorOf<T>;

  BlockedRun(const CallView& call, Mutation mutation, int64_t split)
      : call_(call),
        mutation_(mutation),
        split_(split),
        rules_(call, mutation),
        row_(call, mutation, call.scale) {}

  // Computes the heads with the numbers [first, last), counted through the batch items.
  void Run(int64_t first, int64_t last) {
    for (int64_t number = first; number < last; ++number) {
      const int64_t b = number / call_.q_heads;
      const int64_t rows = call_.StoredRows(b);
      for (int64_t i = 0; i < rows; i += kTile) {
        RunQueryTile(b, number % call_.q_heads, i, std::min(i + kTile, rows));
      }
    }
  }

 private:
  struct Lane {
    A score = 0;
    int64_t key = 0;
  };

  bool Is(Mutation mutation) const { return mutation_ == mutation; }

  void RunQueryTile(int64_t b, int64_t h, int64_t begin, int64_t end) {
    if (Is(Mutation::kEmptyQueryTileUnwritten) && SeesNothing(b, h, begin, end)) return;
    start_ = kNoScore;
    if (Is(Mutation::kMaximumSharedByRows)) start_ = LargestScore(b, h, begin, end);
    for (int64_t i = begin; i < end; ++i) {
      row_.Start(b, h, i);
      seen_ = false;
      Part<A> whole = RunSplits({b, begin, end, 0, 0});
      const bool has_sink = Is(Mutation::kSinkInEverySplit) && call_.StoredKeys(b) > 0;
      if (!has_sink) whole = Merged(whole, SinkPart());
      Write(b, h, i, whole);
    }
  }

  bool SeesNothing(int64_t b, int64_t h, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < call_.StoredKeys(b); ++j) {
        if (PlainVisible(call_, mutation_, b, h, i, j)) return false;
      }
    }
    return true;
  }

  // Of any row of a tile.
  A LargestScore(int64_t b, int64_t h, int64_t begin, int64_t end) {
    A largest = kNoScore;
    for (int64_t i = begin; i < end; ++i) {
      row_.Start(b, h, i);
      for (int64_t j = 0; j < call_.StoredKeys(b); ++j) {
        if (row_.Sees(j)) largest = std::max(largest, row_.Score(j));
      }
    }
    return largest;
  }

  Part<A> EmptyPart() const {
    return {start_, A{0}, std::vector<A>(static_cast<size_t>(call_.value_dim))};
  }

  // The sink as a part with a weight and no value; empty without one.
  Part<A> SinkPart() const {
    Part<A> part = EmptyPart();
    part.max = row_.Sink();
    part.weight = part.max == kNoScore ? A{0} : A{1};
    return part;
  }

  Part<A> RunSplits(Tile tile) {
    const int64_t keys = call_.StoredKeys(tile.batch);
    // Lses to base 2, which Merged takes for natural ones.
    const bool is_base_2 = Is(Mutation::kSplitLseInBase2) && keys > split_;
    Part<A> whole = EmptyPart();
    for (int64_t begin = 0; begin < keys; begin += split_) {
      Part<A> part = RunSplit(tile, begin, std::min(begin + split_, keys));
      if (is_base_2) part = Rebased(part, std::log(A{2}));
      whole = begin == 0 ? part : Merged(whole, part);
    }
    return is_base_2 ? Rebased(whole, 1 / std::log(A{2})) : whole;
  }

  Part<A> RunSplit(Tile tile, int64_t begin, int64_t end) {
    Part<A> part = Is(Mutation::kSinkInEverySplit) ? SinkPart() : EmptyPart();
    lane_count_ = 0;
    for (tile.key_begin = begin; tile.key_begin < end; tile.key_begin += kTile) {
      tile.key_end = std::min(tile.key_begin + kTile, end);
      const TileUse use = rules_.UseOf(tile);
      if (use == TileUse::kSkipped) continue;
      CollectLanes(tile, use == TileUse::kWhole);
      Absorb(part);
    }
    return part;
  }

  // Lanes of a partial tile that are kept stay those of the tile before.
  void CollectLanes(const Tile& tile, bool is_whole) {
    const int64_t before = lane_count_;
    lane_count_ = 0;
    for (int64_t j = tile.key_begin; j < tile.key_end; ++j) {
      if (!is_whole && !row_.Sees(j)) continue;
      seen_ = true;
      lanes_[static_cast<size_t>(lane_count_++)] = {row_.Score(j), j};
    }
    const bool is_partial = tile.key_end - tile.key_begin < kTile;
    if (Is(Mutation::kTileTailKept) && is_partial) lane_count_ = std::max(before, lane_count_);
  }

  void Absorb(Part<A>& part) {
    A max = part.max;
    for (int64_t n = 0; n < lane_count_; ++n) {
      max = std::max(max, lanes_[static_cast<size_t>(n)].score);
    }
    if (Is(Mutation::kHiddenTileGuard) && lane_count_ == 0) max = std::max(max, A(-1e4));
    Rescale(part, max);
    const bool is_stale = Is(Mutation::kMaximumStale) && part.max > kNoScore;
    const A subtracted = is_stale ? part.max : max;
    part.max = max;
    for (int64_t n = 0; n < lane_count_; ++n) {
      AddLane(lanes_[static_cast<size_t>(n)], subtracted, part);
    }
  }

  // Makes the part's sums relative to `max`.
  void Rescale(Part<A>& part, A max) const {
    const bool is_guarded = !Is(Mutation::kFirstTileHiddenNan);
    if (max == part.max && (is_guarded || max > kNoScore)) return;
    const A shrink = is_guarded ? WeightOf(part.max, max) : std::exp(part.max - max);
    part.weight *= shrink;
    for (A& sum : part.sums) sum *= shrink;
  }

  void AddLane(const Lane& lane, A max, Part<A>& part) {
    const A weight = WeightOf(lane.score, max);
    part.weight += weight;
    const A kept = weight * row_.KeptShare(lane.key);
    const std::vector<A>& value = row_.Value(lane.key);
    for (size_t c = 0; c < part.sums.size(); ++c) part.sums[c] += kept * value[c];
  }

  // The parts as one: exactly the other where one is empty.
  Part<A> Merged(const Part<A>& a, const Part<A>& b) const {
    if (Is(Mutation::kMergeOfEmptyParts)) return Summed(a, b);
    if (b.is_empty()) return a;
    if (a.is_empty()) return b;
    return Summed(a, b);
  }

  Part<A> Summed(const Part<A>& a, const Part<A>& b) const {
    Part<A> whole = EmptyPart();
    whole.max = std::max(a.max, b.max);
    const A of_a = std::exp(a.max - whole.max);
    const A of_b = std::exp(b.max - whole.max);
    whole.weight = of_a * a.weight + of_b * b.weight;
    for (size_t c = 0; c < whole.sums.size(); ++c) {
      whole.sums[c] = of_a * a.sums[c] + of_b * b.sums[c];
    }
    return whole;
  }

  // The part with its lse to another base: normalised, its maximum lse / log(base), its weight 1.
  Part<A> Rebased(Part<A> part, A log_of_base) const {
    if (part.is_empty()) return part;
    part.max = (part.max + std::log(part.weight)) / log_of_base;
    for (A& sum : part.sums) sum /= part.weight;
    part.weight = 1;
    return part;
  }

  void Write(int64_t b, int64_t h, int64_t i, const Part<A>& whole) {
    const bool has_value = seen_ || std::isnan(whole.weight);
    const RowSpan<T> out = call_.OutAt<T>(b, h, i);
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      const A value = has_value ? whole.sums[static_cast<size_t>(c)] / whole.weight : A{0};
      out[c] = static_cast<T>(value);
    }
    const bool has_terms = has_value || call_.sinks;
    if (call_.lse) {
      call_.LseAt<A>(b, h, i) = has_terms ? whole.max + std::log(whole.weight) : kNoScore;
    }
    row_.WriteKeyOutputs(whole.max, whole.weight, seen_);
  }

  static constexpr A kNoScore = RowScores<T>::kNoScore;

  const CallView& call_;
  const Mutation mutation_;
  const int64_t split_;
  const TileRules rules_;
  RowScores<T> row_;

  A start_ = kNoScore;  // the maximum before any key
  bool seen_ = false;   // whether the row at hand has seen a visible key
  std::array<Lane, kTile> lanes_;
  int64_t lane_count_ = 0;
};

}  // namespace

void BlockedAttention(const CallView& call, Mutation mutation, int threads) {
  int64_t split = kSplit;
  if (mutation == Mutation::kSplitsFollowThreads && threads > 1) {
    split = std::max<int64_t>((call.kv_len + threads - 1) / threads, 1);
  }
  WithFloatType(call.dtype, [&](auto zero) {
    ForEachPart(call.batch * call.q_heads, threads, [&](int64_t first, int64_t last) {
      BlockedRun<decltype(zero)>(call, mutation, split).Run(first, last);
    });
    WritePresent<decltype(zero)>(call);
  });
}

}  // namespace attest
