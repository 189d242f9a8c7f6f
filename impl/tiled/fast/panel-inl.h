// The block kernel for many rows. Per target, see micro_kernel-inl.h.
//
// A panel is a few vectors of rows. Its queries are transposed once; for each tile of keys
//  1. the part of the tile that some row of a vector may see is cut into segments, each a range of keys
//     and of vectors: a tile below the diagonal is one, one on it becomes a staircase;
//  2. scores[key][row] = sum over components of k[key][c] * q[c][row], in segments;
//  3. softcap, biases and hidden keys (-infinity) where there are any, and the online softmax;
//  4. sums[c][row] += v[key][c] * weight[key][row], in segments.
// Keys and values are read as they lie, one element at a time into all lanes: nothing of them is packed.
#if defined(ATTEST_TILED_FAST_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_PANEL_INL_H_
#undef ATTEST_TILED_FAST_PANEL_INL_H_
#else
#define ATTEST_TILED_FAST_PANEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "impl/tiled/fast/aligned_floats.h"
#include "impl/tiled/fast/block_kernel.h"
#include "impl/tiled/fast/key_tile-inl.h"
#include "impl/tiled/fast/outputs-inl.h"
#include "impl/tiled/fast/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

// Keys first .. last of a tile, for vectors first_vector .. last_vector of a panel.
struct Segment {
  size_t first, last, first_vector, last_vector;
  size_t keys() const { return last - first; }
  size_t vectors() const { return last_vector - first_vector; }
};

// What of a tile has to be computed for a panel.
struct TilePlan {
  Segment segments[kTile / kRows];
  size_t count = 0;
  bool has_hidden = false;  // something in a segment is outside of a row's range
  std::span<const Segment> all() const { return {segments, count}; }
};

class PanelKernel final : public BlockKernel {
 public:
  PanelKernel(const FastCall& fast, int64_t rows)
      : fast_(fast),
        call_(fast.call),
        lanes_(hn::Lanes(Floats())),
        vectors_(std::min(kVectors, (static_cast<size_t>(rows) + lanes_ - 1) / lanes_)),
        width_(vectors_ * lanes_),
        panels_((static_cast<size_t>(rows) + width_ - 1) / width_),
        head_dim_(static_cast<size_t>(call_.head_dim)),
        value_dim_(static_cast<size_t>(call_.value_dim)),
        panel_size_((value_dim_ + 2) * width_),
        rows_(fast),
        tile_(fast, /*whole_vectors=*/false),
        reader_(call_),
        queries_(static_cast<int64_t>(panels_ * head_dim_ * width_)),
        scores_(kTile * static_cast<int64_t>(width_)),
        total_(PartSize()),
        row_step_(static_cast<size_t>(PaddedToVectors(std::max(call_.head_dim, call_.value_dim)))),
        row_(static_cast<int64_t>(lanes_ * row_step_)) {}

  int64_t PartSize() const override { return static_cast<int64_t>(panels_ * panel_size_); }
  KeySpan keys() const override { return rows_.keys(); }
  float* Total() override { return total_.get(); }

  void Start(const Block& block) override {
    rows_.Reset(block);
    used_panels_ = (static_cast<size_t>(block.rows) + width_ - 1) / width_;
    for (size_t p = 0; p < used_panels_; ++p) PackQueries(p);
  }

  void Clear() override {
    Clear(total_.get());
    if (!call_.sinks) return;
    for (int64_t r = 0; r < rows_.size(); ++r) {
      const RowSums sums = SumsOf(total_.get(), static_cast<size_t>(r) / width_);
      StartWithSink(fast_, rows_[r], sums, static_cast<size_t>(r) % width_);
    }
  }

  void RunChunk(int64_t chunk, float* part) override {
    Clear(part);
    const Block& block = rows_.block();
    const int64_t end = std::min((chunk + 1) * kChunk, rows_.keys().last);
    for (int64_t first = chunk * kChunk; first < end; first += kTile) {
      if (first + kTile <= rows_.keys().first) continue;
      const int64_t stored = call_.StoredKeys(block.batch);
      const Tile tile{first, std::min(kTile, stored - first)};
      tile_.Turn(block.batch, block.kv_head, tile);
      for (size_t p = 0; p < used_panels_; ++p) RunTile(p, tile, part);
    }
  }

  void Merge(const float* part) override {
    for (size_t p = 0; p < used_panels_; ++p) {
      const RowSums total = SumsOf(total_.get(), p), other = SumsOf(const_cast<float*>(part), p);
      for (size_t n = 0; n < width_; n += lanes_) {
        const MergeFactors by = MergeRows(total, other, n);
        for (size_t c = 0; c < value_dim_; ++c) {
          const size_t at = p * panel_size_ + (2 + c) * width_ + n;
          ScaleAndAdd(total_.get() + at, by.total, part + at, by.part, lanes_);
        }
      }
    }
  }

  void Finish() override {
    for (int64_t first = 0; first < rows_.size(); first += static_cast<int64_t>(lanes_)) {
      FinishVector(first);
    }
  }

 private:
  // A panel's share of a part: maxima, sums of weights, then value_dim rows of sums.
  RowSums SumsOf(float* part, size_t p) const {
    return {part + p * panel_size_, part + p * panel_size_ + width_};
  }
  float* ValueSums(float* part, size_t p) const { return part + p * panel_size_ + 2 * width_; }

  void Clear(float* part) const {
    std::fill_n(part, used_panels_ * panel_size_, 0.0F);
    for (size_t p = 0; p < used_panels_; ++p)
      std::fill_n(SumsOf(part, p).max, width_, kMinusInfinity);
  }

  // Rows first .. last of the block are those of panel p.
  int64_t FirstRow(size_t p) const { return static_cast<int64_t>(p * width_); }
  int64_t LastRow(size_t p) const {
    return std::min(static_cast<int64_t>((p + 1) * width_), rows_.size());
  }

  // The scratch row of a lane.
  float* RowOf(size_t lane) const { return row_.get() + lane * row_step_; }

  void PackQueries(size_t p) {
    for (size_t v = 0; v < vectors_ && FirstRow(p) + static_cast<int64_t>(v * lanes_) < LastRow(p);
         ++v) {
      PackVector(p, v);
    }
    SetCommonKeys(p);
  }

  // Lanes behind the last row repeat it.
  void PackVector(size_t p, size_t v) {
    const float* rows[kLanes];
    for (size_t lane = 0; lane < lanes_; ++lane) {
      const auto r = FirstRow(p) + static_cast<int64_t>(v * lanes_ + lane);
      const BlockRow& row = rows_[std::min(r, LastRow(p) - 1)];
      rows[lane] = reader_.QueryInPlace(rows_.block().batch, row.head, row.i, RowOf(lane));
    }
    Transpose(rows, head_dim_, fast_.query_factor, QueriesOf(p) + v * lanes_, width_);
  }

  // Rows first .. first + lanes of the block: those of one vector.
  void FinishVector(int64_t first) {
    const Block& block = rows_.block();
    const size_t p = static_cast<size_t>(first) / width_, n = static_cast<size_t>(first) % width_;
    const RowSums sums = SumsOf(total_.get(), p);
    const int64_t count = std::min(static_cast<int64_t>(lanes_), rows_.size() - first);
    float* out[kLanes];
    for (size_t lane = 0; lane < lanes_; ++lane) {
      out[lane] = static_cast<int64_t>(lane) < count
                      ? OutInPlace(call_, block, rows_[first + static_cast<int64_t>(lane)])
                      : nullptr;
      if (out[lane] == nullptr) out[lane] = RowOf(lane);
    }
    TransposeBack(ValueSums(total_.get(), p) + n, width_, ReciprocalOf(sums, n), value_dim_, out);
    for (size_t lane = 0; lane < static_cast<size_t>(count); ++lane) {
      const BlockRow& row = rows_[first + static_cast<int64_t>(lane)];
      if (out[lane] == RowOf(lane)) WriteOut(call_, block, row, out[lane]);
      if (call_.lse) WriteLse(call_, block, row, sums, n + lane);
    }
  }

  float* QueriesOf(size_t p) const { return queries_.get() + p * head_dim_ * width_; }

  // The keys that length, causality and window let every row of the panel see.
  void SetCommonKeys(size_t p) {
    KeySpan& common = common_keys_[p];
    common = rows_[FirstRow(p)].keys;
    for (int64_t r = FirstRow(p); r < LastRow(p); ++r) {
      common.first = std::max(common.first, rows_[r].keys.first);
      common.last = std::min(common.last, rows_[r].keys.last);
    }
  }

  void RunTile(size_t p, const Tile& tile, float* part) {
    TilePlan plan;
    MakePlan(p, tile, plan);
    if (plan.count == 0) return;
    if (fast_.has_masks && !rows_.SeesAny(tile, FirstRow(p), LastRow(p))) return;
    ComputeScores(p, tile, plan);
    TakeMaxima(SumsOf(part, p), ValueSums(part, p), plan);
    const ScoreTile weights{scores_.get(), static_cast<int64_t>(width_), 1};
    const bool all_finite = !(plan.has_hidden || fast_.has_masks) || tile_.ValuesAreFinite();
    AddValues(all_finite ? tile_.Values() : tile_.FiniteValues(), ValueSums(part, p), plan);
    if (all_finite) return;
    const ScoreTile sums{ValueSums(part, p), static_cast<int64_t>(width_), 1};
    tile_.AddOthers(rows_, FirstRow(p), LastRow(p), weights, sums);
  }

  void MakePlan(size_t p, const Tile& tile, TilePlan& plan) const {
    const auto keys = static_cast<size_t>(tile.count);
    const size_t used = (static_cast<size_t>(LastRow(p) - FirstRow(p)) + lanes_ - 1) / lanes_;
    if (common_keys_[p].first <= tile.first && tile.first + tile.count <= common_keys_[p].last) {
      plan.segments[plan.count++] = {0, keys, 0, used};
      return;
    }
    plan.has_hidden = true;
    TileRange ranges[kVectors];
    for (size_t v = 0; v < used; ++v) ranges[v] = RangeOfVector(p, v, tile);
    for (size_t n = 0; n < keys; n += kRows) {
      AddToPlan({n, std::min(n + kRows, keys), 0, used}, ranges, plan);
    }
  }

  // The union of what the rows of vector v may see.
  TileRange RangeOfVector(size_t p, size_t v, const Tile& tile) const {
    TileRange range{tile.count, 0};
    const int64_t first = FirstRow(p) + static_cast<int64_t>(v * lanes_);
    const int64_t last = std::min(first + static_cast<int64_t>(lanes_), LastRow(p));
    for (int64_t r = first; r < last; ++r) {
      const TileRange one = rows_.RangeIn(tile, r);
      if (one.empty()) continue;
      range = {std::min(range.first, one.first), std::max(range.last, one.last)};
    }
    return range;
  }

  // Adds the keys of `next` for the vectors that they concern, and those between.
  static void AddToPlan(Segment next, const TileRange* ranges, TilePlan& plan) {
    const auto concerns = [&](size_t v) {
      return static_cast<size_t>(ranges[v].first)<next.last&& static_cast<size_t>(ranges[v].last)>
          next.first;
    };
    while (next.vectors() > 0 && !concerns(next.first_vector)) ++next.first_vector;
    while (next.vectors() > 0 && !concerns(next.last_vector - 1)) --next.last_vector;
    if (next.vectors() == 0) return;
    if (plan.count > 0) {
      Segment& back = plan.segments[plan.count - 1];
      if (back.last == next.first && back.first_vector == next.first_vector &&
          back.last_vector == next.last_vector) {
        back.last = next.last;
        return;
      }
    }
    plan.segments[plan.count++] = next;
  }

  void ComputeScores(size_t p, const Tile& tile, const TilePlan& plan) {
    const FloatRows keys = tile_.Keys();
    const auto step = static_cast<size_t>(keys.step);
    for (const Segment& s : plan.all()) {
      const size_t lane = s.first_vector * lanes_;
      float* const scores = scores_.get() + s.first * width_ + lane;
      Accumulate(s.keys(), s.vectors(), {keys.data + s.first * step, step, 1},
                 {QueriesOf(p) + lane, width_}, {scores, width_}, head_dim_, /*is_fresh=*/true);
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
    for (size_t v = 0; v < vectors_ && plan.has_hidden; ++v) HideOutside(p, tile, v, plan);
  }

  // Sets the scores of vector v that are outside of their row's range to -infinity.
  void HideOutside(size_t p, const Tile& tile, size_t v, const TilePlan& plan) {
    const Floats d;
    HWY_ALIGN float first[hn::MaxLanes(Floats())] = {};
    HWY_ALIGN float last[hn::MaxLanes(Floats())] = {};
    TileRange common{0, tile.count};
    for (size_t lane = 0; lane < lanes_; ++lane) {
      const auto r = FirstRow(p) + static_cast<int64_t>(v * lanes_ + lane);
      const TileRange range = rows_.RangeIn(tile, std::min(r, LastRow(p) - 1));
      first[lane] = static_cast<float>(range.first);
      last[lane] = static_cast<float>(range.last);
      common = {std::max(common.first, range.first), std::min(common.last, range.last)};
    }
    const Vector from = hn::Load(d, first), to = hn::Load(d, last);
    for (const Segment& s : plan.all()) {
      if (v < s.first_vector || v >= s.last_vector) continue;
      const size_t begin = std::clamp(static_cast<size_t>(common.first), s.first, s.last);
      const size_t end = std::clamp(static_cast<size_t>(common.last), begin, s.last);
      HideOthers(v, s.first, begin, from, to);
      HideOthers(v, end, s.last, from, to);
    }
  }

  // Of keys first .. last and vector v, those that are not within [from, to).
  void HideOthers(size_t v, size_t first, size_t last, Vector from, Vector to) {
    const Floats d;
    for (size_t n = first; n < last; ++n) {
      float* const score = scores_.get() + n * width_ + v * lanes_;
      const Vector key = hn::Set(d, static_cast<float>(n));
      const auto visible = hn::And(hn::Ge(key, from), hn::Lt(key, to));
      const Vector hidden = hn::Set(d, kMinusInfinity);
      hn::Store(hn::IfThenElse(visible, hn::Load(d, score), hidden), d, score);
    }
  }

  // The online softmax: new maxima, weights in place of scores, what was summed scaled to them.
  void TakeMaxima(const RowSums& sums, float* values, const TilePlan& plan) {
    const Floats d;
    Vector max[kVectors], shift[kVectors], weight[kVectors];
    for (size_t v = 0; v < vectors_; ++v) max[v] = hn::LoadU(d, sums.max + v * lanes_);
    for (const Segment& s : plan.all()) {
      OfSegment(s, [&](auto count, float* scores) HWY_ATTR {
        RaiseMaximum<count()>(scores, width_, s.keys(), max + s.first_vector);
      });
    }
    for (size_t v = 0; v < vectors_; ++v) {
      shift[v] = ShiftOf(max[v]);
      weight[v] = hn::Zero(d);
    }
    for (const Segment& s : plan.all()) {
      OfSegment(s, [&](auto count, float* scores) HWY_ATTR {
        Exponentiate<count()>(scores, width_, s.keys(), shift + s.first_vector,
                              weight + s.first_vector);
      });
    }
    for (size_t v = 0; v < vectors_; ++v) {
      const size_t n = v * lanes_;
      const Vector factor = Exp2(hn::Sub(hn::LoadU(d, sums.max + n), shift[v]));
      hn::StoreU(max[v], d, sums.max + n);
      hn::StoreU(hn::MulAdd(hn::LoadU(d, sums.weight + n), factor, weight[v]), d, sums.weight + n);
      if (!IsOne(factor)) Scale(values + n, width_, value_dim_, factor);
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

  void AddValues(const FloatRows& values, float* sums, const TilePlan& plan) const {
    const auto step = static_cast<size_t>(values.step);
    for (const Segment& s : plan.all()) {
      const size_t lane = s.first_vector * lanes_;
      Accumulate(value_dim_, s.vectors(), {values.data + s.first * step, 1, step},
                 {scores_.get() + s.first * width_ + lane, width_}, {sums + lane, width_}, s.keys(),
                 /*is_fresh=*/false);
    }
  }

  const FastCall& fast_;
  const CallView& call_;
  const size_t lanes_, vectors_, width_, panels_;  // rows a vector, vectors a panel, rows a panel
  const size_t head_dim_, value_dim_;
  const size_t panel_size_;  // of a part, in floats
  BlockRows rows_;
  KeyTile tile_;
  const RowReader reader_;
  AlignedFloats queries_;  // [panels, head_dim, width]
  AlignedFloats scores_;   // [kTile, width]
  AlignedFloats total_;    // a part
  const size_t row_step_;  // the larger of both dims, padded
  AlignedFloats row_;      // [lanes, row_step]: rows on their way from and to storage
  KeySpan common_keys_[kMaxPanels];
  size_t used_panels_ = 0;
};

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
