// The block kernel for many rows. Per target, see micro_kernel-inl.h.
//
// A panel is a few vectors of rows. Its queries are transposed once; for each tile of keys
//  1. the part of the tile that some row of a vector may see is cut into segments, each a range of keys
//     and of vectors: a tile below the diagonal is one, one on it becomes a staircase;
//  2. scores[key][row] = sum over components of k[key][c] * q[c][row], in segments;
//  3. softcap, biases and hidden keys (-infinity) where there are any, and the online softmax;
//  4. sums[row][c] += weight[key][row] * v[key][c], the keys that some of a few rows may see.
// Vectors hold rows up to the weights, and components from there on: so the softmax has no sums across
// lanes, values are read and results written as they lie, and keys too, an element at a time.
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

// Rows that are given the same keys of a tile where they do not see the same.
constexpr size_t kRowsTogether = 8;

// Half-open range of keys of a tile.
struct RowRange {
  int32_t first, last;
};

// What of a tile has to be computed for a panel.
struct TilePlan {
  Segment segments[(kTile + kRows - 1) / kRows];
  size_t count = 0;
  bool has_hidden = false;  // something in a segment is outside of a row's range
  std::span<const Segment> all() const { return {segments, count}; }
};

class PanelKernel final : public BlockKernel {
  using Integers = hn::RebindToSigned<Floats>;

 public:
  PanelKernel(const FastCall& fast, int64_t rows)
      : fast_(fast),
        call_(fast.call),
        lanes_(hn::Lanes(Floats())),
        vectors_(std::min(kVectors, (static_cast<size_t>(rows) + lanes_ - 1) / lanes_)),
        width_(vectors_ * lanes_),
        panels_((static_cast<size_t>(rows) + width_ - 1) / width_),
        head_dim_(static_cast<size_t>(call_.head_dim)),
        value_step_(static_cast<size_t>(PaddedToVectors(call_.value_dim))),
        panel_size_((value_step_ + 2) * width_),
        rows_(fast),
        tile_(fast),
        reader_(call_),
        queries_(static_cast<int64_t>(panels_ * head_dim_ * width_)),
        scores_(kTile * static_cast<int64_t>(width_)),
        total_(PartSize()),
        row_step_(static_cast<size_t>(PaddedToVectors(call_.head_dim))),
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

  void RunChunk(int64_t chunk, float* part) override {
    for (size_t p = 0; p < used_panels_; ++p) {
      ClearSums(part, p);
      has_values_[p] = false;
    }
    const Block& block = rows_.block();
    const int64_t end = std::min((chunk + 1) * kChunk, rows_.keys().last);
    for (int64_t first = chunk * kChunk; first < end; first += kTile) {
      if (first + kTile <= rows_.keys().first) continue;
      const int64_t stored = call_.StoredKeys(block.batch);
      const Tile tile{first, std::min(kTile, stored - first)};
      tile_.Turn(block.batch, block.kv_head, tile);
      for (size_t p = 0; p < used_panels_; ++p) RunTile(p, tile, part);
    }
    for (size_t p = 0; p < used_panels_; ++p) {
      if (!has_values_[p]) ClearValues(part, p);
    }
  }

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
    for (size_t p = 0; p < used_panels_; ++p) {
      const RowSums sums = SumsOf(total_.get(), p);
      WriteOuts(call_, rows_, FirstRow(p), LastRow(p), sums,
                {ValueSums(total_.get(), p), value_step_});
      if (call_.lse) WriteLses(call_, rows_, FirstRow(p), LastRow(p), sums);
    }
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

  void PackQueries(size_t p) {
    for (size_t v = 0; v < vectors_ && FirstRow(p) + static_cast<int64_t>(v * lanes_) < LastRow(p);
         ++v) {
      PackVector(p, v);
    }
    SetCommonKeys(p);
  }

  // Rows whose elements lie side by side are read there, others by way of scratch.
  void PackVector(size_t p, size_t v) {
    if (head_dim_ == 0) return;
    const int64_t batch = rows_.block().batch;
    if (call_.fp8 || call_.q.strides[3] != 1) {
      return PackRows<float>(p, v, /*ahead=*/0, [&](int64_t r, size_t lane, const float*) {
        float* const scratch = row_.get() + lane * row_step_;
        reader_.Query(batch, rows_[r].head, rows_[r].i, scratch);
        return scratch;
      });
    }
    WithStorage(call_.dtype, [&](auto zero) {
      using T = decltype(zero);
      const int64_t step = call_.q.strides[2];
      PackRows<T>(p, v, static_cast<size_t>(step) * lanes_,
                  [&](int64_t r, size_t lane, const T* before) {
                    if (lane > 0 && !rows_.StartsHead(r)) return before + step;
                    return call_.QueryAt<T>(batch, rows_[r].head, rows_[r].i).data;
                  });
    });
  }

  // data_of(row, lane, where those of the lane before lie) is where a row's elements lie. Lanes behind
  // the last row repeat it.
  template <typename T, typename DataOf>
  void PackRows(size_t p, size_t v, size_t ahead, const DataOf& data_of) {
    const T* rows[kLanes];
    for (size_t lane = 0; lane < lanes_; ++lane) {
      const auto r = FirstRow(p) + static_cast<int64_t>(v * lanes_ + lane);
      const T* const before = lane == 0 ? nullptr : rows[lane - 1];
      rows[lane] = r < LastRow(p) ? data_of(r, lane, before) : before;
    }
    Transpose(rows, head_dim_, fast_.query_factor, QueriesOf(p) + v * lanes_, width_, ahead);
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
    TakeMaxima(p, part, plan);
    const ScoreTile weights{scores_.get(), static_cast<int64_t>(width_), 1};
    const bool all_finite = !(plan.has_hidden || fast_.has_masks) || tile_.ValuesAreFinite();
    const FloatRows values = all_finite ? tile_.Values() : tile_.FiniteValues();
    if (plan.has_hidden) {
      AddVisibleValues(p, values, part);
    } else {
      AddValues(p, 0, RowsOf(p), {0, static_cast<int32_t>(tile.count)}, values, part);
    }
    has_values_[p] = true;
    if (all_finite) return;
    const ScoreTile sums{ValueSums(part, p), 1, static_cast<int64_t>(value_step_)};
    tile_.AddOthers(rows_, FirstRow(p), LastRow(p), weights, sums);
  }

  void MakePlan(size_t p, const Tile& tile, TilePlan& plan) {
    const auto keys = static_cast<size_t>(tile.count);
    const size_t used = (RowsOf(p) + lanes_ - 1) / lanes_;
    if (common_keys_[p].first <= tile.first && tile.first + tile.count <= common_keys_[p].last) {
      plan.segments[plan.count++] = {0, keys, 0, used};
      return;
    }
    plan.has_hidden = true;
    SetRanges(p, tile);
    RowRange ranges[kVectors];
    for (size_t v = 0; v < used; ++v) ranges[v] = UnionOfVector(v);
    for (size_t n = 0; n < keys; n += kRows) {
      AddToPlan({n, std::min(n + kRows, keys), 0, used}, ranges, plan);
    }
  }

  // What each row of the panel may see of the tile; lanes behind the last row
  // repeat it.
  void SetRanges(size_t p, const Tile& tile) {
    for (size_t r = 0; r < width_; ++r) {
      const size_t row = std::min(r, RowsOf(p) - 1);
      const TileRange range = rows_.RangeIn(tile, FirstRow(p) + static_cast<int64_t>(row));
      from_[r] = range.empty() ? int32_t{kTile} : static_cast<int32_t>(range.first);
      to_[r] = range.empty() ? 0 : static_cast<int32_t>(range.last);
    }
  }

  // Of what the rows of vector v see, as SetRanges has it; and what all of them see.
  RowRange UnionOfVector(size_t v) const {
    const Integers d;
    return {hn::GetLane(hn::MinOfLanes(d, hn::LoadU(d, from_ + v * lanes_))),
            hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, to_ + v * lanes_)))};
  }
  RowRange CommonOfVector(size_t v) const {
    const Integers d;
    return {hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, from_ + v * lanes_))),
            hn::GetLane(hn::MinOfLanes(d, hn::LoadU(d, to_ + v * lanes_)))};
  }

  // What kRowsTogether rows from r on see, or as many as there are lanes.
  RowRange UnionOfFew(size_t r) const {
    const hn::CappedTag<int32_t, kRowsTogether> d;
    return {hn::GetLane(hn::MinOfLanes(d, hn::LoadU(d, from_ + r))),
            hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, to_ + r)))};
  }

  // Adds the keys of `next` for the vectors that they concern, and those between.
  static void AddToPlan(Segment next, const RowRange* ranges, TilePlan& plan) {
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
      Accumulate<kRows, kVectors, /*kByRow=*/true, float>(
          s.keys(), s.vectors(), {keys.data + s.first * step, step, 1},
          {QueriesOf(p) + lane, width_}, {scores, width_}, head_dim_,
          /*is_fresh=*/true);
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
    for (size_t v = 0; v < vectors_ && plan.has_hidden; ++v) HideOutside(v, plan);
  }

  // Sets the scores of vector v that are outside of their row's range to -infinity.
  void HideOutside(size_t v, const TilePlan& plan) {
    const Floats d;
    const Integers integers;
    const RowRange common = CommonOfVector(v);
    const Vector from = hn::ConvertTo(d, hn::LoadU(integers, from_ + v * lanes_));
    const Vector to = hn::ConvertTo(d, hn::LoadU(integers, to_ + v * lanes_));
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

  // Few rows at a time, for they see different keys. What some of them do not
  // see has a weight of 0.
  void AddVisibleValues(size_t p, const FloatRows& values, float* part) const {
    const size_t together = std::min(kRowsTogether, lanes_);
    for (size_t r = 0; r < RowsOf(p); r += together) {
      AddValues(p, r, std::min(r + together, RowsOf(p)), UnionOfFew(r), values, part);
    }
  }

  // To rows first .. last of the panel, which have sums already or begin with
  // these.
  void AddValues(size_t p, size_t first, size_t last, const RowRange& keys, const FloatRows& values,
                 float* part) const {
    const size_t count = static_cast<size_t>(std::max(keys.last - keys.first, 0));
    const size_t key = count == 0 ? 0 : static_cast<size_t>(keys.first);
    const auto step = static_cast<size_t>(values.step);
    Accumulate<kTall, kTallVectors, /*kByRow=*/false, float>(
        last - first, value_step_ / lanes_, {scores_.get() + key * width_ + first, 1, width_},
        {values.data + key * step, step}, {ValueSums(part, p) + first * value_step_, value_step_},
        count, !has_values_[p]);
  }

  const FastCall& fast_;
  const CallView& call_;
  const size_t lanes_, vectors_, width_,
      panels_;  // rows a vector, vectors a panel, rows a panel
  const size_t head_dim_;
  const size_t value_step_;  // value_dim, padded
  const size_t panel_size_;  // of a part, in floats
  BlockRows rows_;
  KeyTile tile_;
  const RowReader reader_;
  AlignedFloats queries_;  // [panels, head_dim, width]
  AlignedFloats scores_;   // [kTile, width]
  AlignedFloats total_;    // a part
  const size_t row_step_;  // head_dim, padded
  AlignedFloats row_;      // [lanes, row_step]: queries on their way from storage
  KeySpan common_keys_[kMaxPanels];
  bool has_values_[kMaxPanels] = {};  // whether the part has sums of values, else they begin at 0
  int32_t from_[kVectors * kLanes], to_[kVectors * kLanes];  // of SetRanges
  size_t used_panels_ = 0;
};

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
