// The block kernel for many rows. Per target, see micro_kernel-inl.h.
//
// A panel is a few vectors of rows. Its queries are transposed once; for each tile of keys
//  1. the part of the tile that some row of a vector may see is cut into segments, each a range of keys
//     and of vectors: a tile below the diagonal is one, one on it becomes a staircase;
//  2. scores[key][row] = sum over components of k[key][c] * q[c][row], in segments;
//  3. softcap, biases and hidden keys (-infinity) where there are any, and the online softmax;
//  4. sums[row][c] += weight[key][row] * v[key][c], the keys that some of a few rows may see.
// Vectors hold rows up to the weights, and components from there on: so the softmax has no sums across
// lanes, values are read and results written as they lie, and keys too, an element at a time. The last tile's
// sums go to out straight from registers where they can. Of bf16 both products are of pairs, see dots-inl.h.
#if defined(ATTEST_TILED_FAST_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_PANEL_INL_H_
#undef ATTEST_TILED_FAST_PANEL_INL_H_
#else
#define ATTEST_TILED_FAST_PANEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "impl/tiled/fast/aligned_floats.h"
#include "impl/tiled/fast/block_kernel.h"
#include "impl/tiled/fast/key_tile-inl.h"
#include "impl/tiled/fast/outputs-inl.h"
#include "impl/tiled/fast/queries-inl.h"
#include "impl/tiled/fast/softmax-inl.h"
#include "impl/tiled/fast/tile_plan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

static_assert(!kHasDots || kRows % 2 == 0, "a segment begins with the first key of a pair");

class PanelKernel final : public BlockKernel {
 public:
  PanelKernel(const FastCall& fast, int64_t rows)
      : fast_(fast),
        call_(fast.call),
        lanes_(hn::Lanes(Floats())),
        vectors_(std::min(kVectors, (static_cast<size_t>(rows) + lanes_ - 1) / lanes_)),
        width_(vectors_ * lanes_),
        panels_((static_cast<size_t>(rows) + width_ - 1) / width_),
        value_step_(static_cast<size_t>(PaddedToVectors(call_.value_dim))),
        panel_size_((value_step_ + 2) * width_),
        rows_(fast),
        tile_(fast),
        queries_(fast, panels_, width_),
        scores_(kTile * static_cast<int64_t>(width_)),
        pairs_(tile_.uses_dots() ? kTile / 2 * static_cast<int64_t>(width_) : 0),
        total_(PartSize()) {}

  int64_t PartSize() const override { return static_cast<int64_t>(panels_ * panel_size_); }
  KeySpan keys() const override { return rows_.keys(); }
  float* Total() override { return total_.get(); }

  void Start(const Block& block) override {
    const bool sees_others = rows_.Reset(block);
    used_panels_ = (static_cast<size_t>(block.rows) + width_ - 1) / width_;
    for (size_t p = 0; p < used_panels_; ++p) {
      queries_.Pack(rows_, p, FirstRow(p), LastRow(p));
      if (sees_others) keys_[p].Set(rows_, FirstRow(p), LastRow(p));
    }
  }

  void Clear() override {
    for (size_t p = 0; p < used_panels_; ++p) {
      ClearSums(total_.get(), p);
      ClearValues(total_.get(), p);
    }
    if (!call_.sinks) return;
    for (int64_t r = 0; r < rows_.size(); ++r) {
      const RowSums sums = SumsOf(total_.get(), static_cast<size_t>(r) / width_);
      StartWithSink(fast_, rows_[r], sums, static_cast<size_t>(r) % width_);
    }
  }

  void RunChunk(int64_t chunk, float* part) override { RunTiles(chunk, part, /*is_only=*/false); }

  void RunOnly(int64_t chunk) override { RunTiles(chunk, total_.get(), /*is_only=*/true); }

  void Merge(const float* part) override {
    const Floats d;
    HWY_ALIGN float of_total[kLanes], of_part[kLanes];
    for (size_t p = 0; p < used_panels_; ++p) {
      const RowSums total = SumsOf(total_.get(), p), other = SumsOf(const_cast<float*>(part), p);
      for (size_t r = 0; r < RowsOf(p); r += lanes_) {
        const MergeFactors by = MergeRows(total, other, r);
        hn::Store(by.total, d, of_total);
        hn::Store(by.part, d, of_part);
        for (size_t lane = 0; lane < std::min(lanes_, RowsOf(p) - r); ++lane) {
          const size_t at = p * panel_size_ + 2 * width_ + (r + lane) * value_step_;
          ScaleAndAdd(total_.get() + at, hn::Set(d, of_total[lane]), part + at,
                      hn::Set(d, of_part[lane]), value_step_);
        }
      }
    }
  }

  void Finish() override {
    for (size_t p = 0; p < used_panels_; ++p) FinishPanel(p);
  }

 private:
  // A panel's share of a part: maxima, sums of weights, then for each row its sums of values.
  RowSums SumsOf(float* part, size_t p) const {
    return {part + p * panel_size_, part + p * panel_size_ + width_};
  }
  float* ValueSums(float* part, size_t p) const { return part + p * panel_size_ + 2 * width_; }

  void ClearSums(float* part, size_t p) const {
    std::fill_n(SumsOf(part, p).max, width_, kMinusInfinity);
    std::fill_n(SumsOf(part, p).weight, width_, 0.0F);
  }
  void ClearValues(float* part, size_t p) const {
    std::fill_n(ValueSums(part, p), RowsOf(p) * value_step_, 0.0F);
  }

  // Rows first .. last of the block are those of panel p.
  int64_t FirstRow(size_t p) const { return static_cast<int64_t>(p * width_); }
  int64_t LastRow(size_t p) const {
    return std::min(static_cast<int64_t>((p + 1) * width_), rows_.size());
  }

  size_t RowsOf(size_t p) const { return static_cast<size_t>(LastRow(p) - FirstRow(p)); }

  // A hidden key's weight of 0 times NaN or infinity is NaN. That shows in sums, where it stays; so values are
  // looked at only when it does.
  void RunTiles(int64_t chunk, float* part, bool is_only) {
    are_finite_ = true;
    RunTilesOnce(chunk, part, is_only, /*is_careful=*/false);
    if (!are_finite_) RunTilesOnce(chunk, part, is_only, /*is_careful=*/true);
  }

  // Each panel is finished as soon as its sums are complete, if this is the only chunk.
  void RunTilesOnce(int64_t chunk, float* part, bool is_only, bool is_careful) {
    for (size_t p = 0; p < used_panels_; ++p) {
      ClearSums(part, p);
      has_values_[p] = has_hidden_[p] = is_complete_[p] = false;
    }
    const Block& block = rows_.block();
    const int64_t end = std::min((chunk + 1) * kChunk, rows_.keys().last);
    for (int64_t first = chunk * kChunk; first < end; first += kTile) {
      if (first + kTile <= rows_.keys().first) continue;
      const int64_t stored = call_.StoredKeys(block.batch);
      const Tile tile{first, std::min(kTile, stored - first)};
      tile_.Turn(block.batch, block.kv_head, tile);
      for (size_t p = 0; p < used_panels_; ++p) {
        if (is_complete_[p]) continue;
        is_complete_[p] = first + kTile >= std::min(end, keys_[p].end());
        const bool is_written = RunTile(p, tile, part, is_careful, is_only && is_complete_[p]);
        if (is_complete_[p] && !is_written) CompletePanel(p, part, is_only);
      }
    }
  }

  void CompletePanel(size_t p, float* part, bool is_only) {
    if (!has_values_[p]) ClearValues(part, p);
    if (has_hidden_[p] && !ValueSumsAreFinite(p, part)) are_finite_ = false;
    if (is_only) FinishPanel(p);
  }

  bool ValueSumsAreFinite(size_t p, float* part) const {
    const Floats d;
    const float* const sums = ValueSums(part, p);
    Vector watched = hn::Zero(d);
    for (size_t n = 0; n < RowsOf(p) * value_step_; n += lanes_) {
      watched = hn::MulAdd(hn::LoadU(d, sums + n), hn::Zero(d), watched);
    }
    return hn::AllTrue(d, hn::Eq(watched, watched));
  }

  void FinishPanel(size_t p) {
    const RowSums sums = SumsOf(total_.get(), p);
    WriteOuts(call_, rows_, FirstRow(p), LastRow(p), sums,
              {ValueSums(total_.get(), p), value_step_});
    if (call_.lse) WriteLses(call_, rows_, FirstRow(p), LastRow(p), sums);
  }

  // What is summed goes to out straight from registers if the tile `completes` the panel's sums and its
  // rows of out allow it. Returns whether it did.
  bool RunTile(size_t p, const Tile& tile, float* part, bool is_careful, bool completes) {
    const TilePlan& plan = keys_[p].PlanOf(tile);
    if (plan.count == 0) return false;
    if (fast_.has_masks && !rows_.SeesAny(tile, FirstRow(p), LastRow(p))) return false;
    ComputeScores(p, tile, plan);
    TakeMaxima(p, part, plan);
    const bool has_hidden = plan.has_hidden || fast_.has_masks;
    has_hidden_[p] = has_hidden_[p] || has_hidden;
    const bool all_finite = !(is_careful && has_hidden) || tile_.ValuesAreFinite();
    const FloatRows values = ValuesOf(all_finite);
    if (completes && all_finite && !is_careful && WritesStraight(p)) {
      WriteOutsOfTile(p, plan, values, tile.count, part);
      return true;
    }
    const Sums sums{ValueSums(part, p), value_step_};
    AddTileValues(p, plan, values, tile.count, part, sums);
    has_values_[p] = true;
    if (all_finite) return false;
    const ScoreTile weights{scores_.get(), static_cast<int64_t>(width_), 1};
    tile_.AddOthers(rows_, FirstRow(p), LastRow(p), weights,
                    {sums.data, 1, static_cast<int64_t>(value_step_)});
    return false;
  }

  FloatRows ValuesOf(bool all) {
    if (tile_.uses_dots()) return all ? tile_.ValuePairs() : tile_.FinitePairs();
    return all ? tile_.Values() : tile_.FiniteValues();
  }

  // Whether the panel's rows of out are whole vectors, one stride after the other.
  bool WritesStraight(size_t p) const {
    return (kInVectors<Eigen::half> || call_.dtype != DType::kF16) && call_.value_dim > 0 &&
           call_.out.strides[3] == 1 && static_cast<size_t>(call_.value_dim) == value_step_ &&
           rows_[FirstRow(p)].head == rows_[LastRow(p) - 1].head;
  }

  void WriteOutsOfTile(size_t p, const TilePlan& plan, const FloatRows& values, int64_t keys,
                       float* part) {
    const Floats d;
    HWY_ALIGN float factors[kVectors * kLanes];
    const RowSums sums = SumsOf(part, p);
    for (size_t n = 0; n < RowsOf(p); n += lanes_) hn::Store(ReciprocalOf(sums, n), d, factors + n);
    const BlockRow& row = rows_[FirstRow(p)];
    bool* const are_finite = has_hidden_[p] ? &are_finite_ : nullptr;
    WithStorage(call_.dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (kInVectors<T>) {
        const Results<T> results{call_.OutAt<T>(rows_.block().batch, row.head, row.i).data,
                                 static_cast<size_t>(call_.out.strides[2]), factors, are_finite};
        AddTileValues(p, plan, values, keys, part, results);
      }
    });
    if (call_.lse) WriteLses(call_, rows_, FirstRow(p), LastRow(p), sums);
  }

  void ComputeScores(size_t p, const Tile& tile, const TilePlan& plan) {
    const FloatRows keys = tile_.uses_dots() ? tile_.KeyPairs() : tile_.Keys();
    const auto step = static_cast<size_t>(keys.step);
    for (const Segment& s : plan.all()) {
      const size_t lane = s.first_vector * lanes_;
      float* const scores = scores_.get() + s.first * width_ + lane;
      const float* const queries = queries_.Of(p) + lane;
      const Factors factors{keys.data + s.first * step, step, 1};
      const Sums sums{scores, width_};
      if (kHasDots && tile_.uses_dots()) {
        AccumulateTo<kRows, kVectors, /*kByRow=*/true, Pair>(
            ScaledSums{scores, width_, fast_.query_factor}, s.keys(), s.vectors(), factors,
            {reinterpret_cast<const Pair*>(queries), width_}, sums, queries_.depth(),
            /*is_fresh=*/true);
      } else {
        Accumulate<kRows, kVectors, /*kByRow=*/true, float>(s.keys(), s.vectors(), factors,
                                                            {queries, width_}, sums,
                                                            queries_.depth(), /*is_fresh=*/true);
      }
      if (fast_.cap != 0) CapScores(scores, s);
    }
    if (call_.alibi_slopes || fast_.has_masks || plan.has_hidden) AdjustScores(p, tile, plan);
  }

  void CapScores(float* scores, const Segment& s) const {
    const Floats d;
    const Vector cap = hn::Set(d, fast_.cap);
    for (size_t n = 0; n < s.keys(); ++n) {
      for (size_t lane = 0; lane < s.vectors() * lanes_; lane += lanes_) {
        float* const score = scores + n * width_ + lane;
        hn::StoreU(hn::Mul(cap, Tanh(hn::LoadU(d, score))), d, score);
      }
    }
  }

  void AdjustScores(size_t p, const Tile& tile, const TilePlan& plan) {
    for (const Segment& s : plan.all()) {
      const auto lane = static_cast<int64_t>(s.first_vector * lanes_);
      const int64_t first = FirstRow(p) + lane;
      const int64_t last =
          std::min(FirstRow(p) + static_cast<int64_t>(s.last_vector * lanes_), LastRow(p));
      const TileRange keys{static_cast<int64_t>(s.first), static_cast<int64_t>(s.last)};
      const ScoreTile scores{scores_.get() + lane, static_cast<int64_t>(width_), 1};
      if (call_.bias || call_.alibi_slopes) rows_.AddBiases(tile, keys, first, last, scores);
      if (fast_.has_masks) rows_.HideMasked(tile, keys, first, last, scores);
    }
    keys_[p].HideOutside(scores_.get(), width_);
  }

  // The online softmax: new maxima, weights in place of scores, what was summed scaled to them.
  void TakeMaxima(size_t p, float* part, const TilePlan& plan) {
    const Floats d;
    const RowSums sums = SumsOf(part, p);
    Vector max[kVectors], shift[kVectors], weight[kVectors];
    for (size_t v = 0; v < vectors_; ++v) max[v] = hn::LoadU(d, sums.max + v * lanes_);
    for (const Segment& s : plan.all()) {
      OfSegment(s, [&](auto count, float* scores) HWY_ATTR {
        RaiseMaximum<count()>(scores, width_, s.keys(), max + s.first_vector);
      });
    }
    for (size_t v = 0; v < vectors_; ++v) shift[v] = ShiftOf(max[v]);
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) weight[v] = hn::Zero(d);
    for (const Segment& s : plan.all()) {
      OfSegment(s, [&](auto count, float* scores) HWY_ATTR {
        if (kHasDots && tile_.uses_dots()) {
          float* const pairs = pairs_.get() + s.first / 2 * width_ + s.first_vector * lanes_;
          ExponentiatePairs<count()>(scores, width_, s.keys(), shift + s.first_vector,
                                     weight + s.first_vector, pairs);
        } else {
          Exponentiate<count()>(scores, width_, s.keys(), shift + s.first_vector,
                                weight + s.first_vector);
        }
      });
    }
    for (size_t v = 0; v < vectors_; ++v) {
      const size_t n = v * lanes_;
      const Vector factor = Exp2(hn::Sub(hn::LoadU(d, sums.max + n), shift[v]));
      hn::StoreU(max[v], d, sums.max + n);
      hn::StoreU(hn::MulAdd(hn::LoadU(d, sums.weight + n), factor, weight[v]), d, sums.weight + n);
      if (has_values_[p] && !IsOne(factor)) ScaleValues(p, n, factor, part);
    }
  }

  // The sums of the vector of rows from row n on.
  void ScaleValues(size_t p, size_t n, Vector factors, float* part) const {
    const Floats d;
    HWY_ALIGN float of_row[kLanes];
    hn::Store(factors, d, of_row);
    for (size_t r = n; r < std::min(n + lanes_, RowsOf(p)); ++r) {
      if (of_row[r - n] == 1) continue;
      Scale(ValueSums(part, p) + r * value_step_, lanes_, value_step_ / lanes_,
            hn::Set(d, of_row[r - n]));
    }
  }

  // body(number of vectors as a constant, the segment's scores).
  template <typename Body>
  HWY_INLINE void OfSegment(const Segment& s, Body&& body) {
    float* const scores = scores_.get() + s.first * width_ + s.first_vector * lanes_;
    switch (s.vectors()) {
      case 1:
        return body(std::integral_constant<size_t, 1>(), scores);
      case 2:
        return body(std::integral_constant<size_t, 2>(), scores);
      default:
        return body(std::integral_constant<size_t, kVectors>(), scores);
    }
  }

  // The weights of the tile times its values. Where rows see different keys, few rows at a time: what some of
  // them do not see has a weight of 0.
  template <typename Target>
  void AddTileValues(size_t p, const TilePlan& plan, const FloatRows& values, int64_t keys,
                     float* part, const Target& target) const {
    if (!plan.has_hidden) {
      return AddValues(p, 0, RowsOf(p), {0, static_cast<int32_t>(keys)}, values, part, target);
    }
    for (size_t r = 0; r < RowsOf(p); r += kRowsTogether) {
      AddValues(p, r, std::min(r + kRowsTogether, RowsOf(p)), keys_[p].UnionOfFew(r), values, part,
                target);
    }
  }

  // For rows first .. last of the panel, which have sums already or begin with these. A key more, to make
  // a pair whole, lies in the same segment, with a weight of 0, or is none and 0 itself.
  template <typename Target>
  void AddValues(size_t p, size_t first, size_t last, const RowRange& keys, const FloatRows& values,
                 float* part, const Target& target) const {
    const size_t begin = keys.first < keys.last ? static_cast<size_t>(keys.first) : 0;
    const size_t end = keys.first < keys.last ? static_cast<size_t>(keys.last) : 0;
    const auto step = static_cast<size_t>(values.step);
    const size_t vectors = value_step_ / lanes_;
    const Sums sums{ValueSums(part, p) + first * value_step_, value_step_};
    const Target rows = target.From(first, 0);
    if (kHasDots && tile_.uses_dots()) {
      const float* const data = values.data + begin / 2 * step;
      AccumulateTo<kTall, kTallVectors, /*kByRow=*/false, Pair>(
          rows, last - first, vectors, {pairs_.get() + begin / 2 * width_ + first, 1, width_},
          {reinterpret_cast<const Pair*>(data), step}, sums, HalfUp(end) - begin / 2,
          !has_values_[p]);
    } else {
      AccumulateTo<kTall, kTallVectors, /*kByRow=*/false, float>(
          rows, last - first, vectors, {scores_.get() + begin * width_ + first, 1, width_},
          {values.data + begin * step, step}, sums, end - begin, !has_values_[p]);
    }
  }

  const FastCall& fast_;
  const CallView& call_;
  // Rows a vector, vectors a panel, rows a panel, panels a block.
  const size_t lanes_, vectors_, width_, panels_;
  const size_t value_step_;  // value_dim, padded
  const size_t panel_size_;  // of a part, in floats
  BlockRows rows_;
  KeyTile tile_;
  PanelQueries queries_;
  AlignedFloats scores_;  // [kTile, width]
  AlignedFloats pairs_;   // [kTile / 2, width]: weights, where dots are used
  AlignedFloats total_;   // a part
  PanelKeys keys_[kMaxPanels];
  // Of each panel: whether the part has sums of values, else they begin at 0; whether hidden keys, with a weight
  // of 0, are among what is summed; whether no row sees more keys of the chunk.
  bool has_values_[kMaxPanels] = {}, has_hidden_[kMaxPanels] = {}, is_complete_[kMaxPanels] = {};
  bool are_finite_ = true;  // whether all sums with hidden keys among them are
  size_t used_panels_ = 0;
};

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
