// Which part of a tile of keys has to be computed for a panel, and which of its scores are hidden. Per
// target, see micro_kernel-inl.h.
#if defined(ATTEST_TILED_FAST_TILE_PLAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_TILE_PLAN_INL_H_
#undef ATTEST_TILED_FAST_TILE_PLAN_INL_H_
#else
#define ATTEST_TILED_FAST_TILE_PLAN_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <span>

#include "impl/tiled/fast/block_rows.h"
#include "impl/tiled/fast/micro_kernel-inl.h"
#include "impl/tiled/fast/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

// Keys first .. last of a tile, for vectors first_vector .. last_vector of a panel.
struct Segment {
  size_t first, last, first_vector, last_vector;
  size_t keys() const { return last - first; }
  size_t vectors() const { return last_vector - first_vector; }
};

// Rows that are given the same keys of a tile where they do not see the same; a vector at most.
constexpr size_t kRowsTogether = std::min<size_t>(8, kLanes);

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

// The keys that length, causality and window let the rows of a panel see.
class PanelKeys {
  using Integers = hn::RebindToSigned<Floats>;

 public:
  // Rows first .. last of the block are the panel. Lanes behind the last row repeat it.
  void Set(const BlockRows& rows, int64_t first, int64_t last) {
    lanes_ = hn::Lanes(Floats());
    vectors_ = (static_cast<size_t>(last - first) + lanes_ - 1) / lanes_;
    KeySpan common = rows[first].keys;
    int64_t end = 0;
    for (size_t r = 0; r < vectors_ * lanes_; ++r) {
      const KeySpan keys = rows[std::min(first + static_cast<int64_t>(r), last - 1)].keys;
      firsts_[r] = keys.first;
      lasts_[r] = keys.last;
      common = {std::max(common.first, keys.first), std::min(common.last, keys.last)};
      end = std::max(end, keys.last);
    }
    common_ = common;
    end_ = end;
    planned_ = {};
  }

  // No row sees a key from there on.
  int64_t end() const { return end_; }

  // The plan of a tile, which the functions below refer to. It is kept, since short calls ask for that of the
  // same tile head after head.
  const TilePlan& PlanOf(const Tile& tile) {
    if (planned_.first != tile.first || planned_.count != tile.count) MakePlan(tile);
    planned_ = tile;
    return plan_;
  }

  // What kRowsTogether rows from r on see of a tile with something hidden.
  RowRange UnionOfFew(size_t r) const { return of_few_[r / kRowsTogether]; }

  // Sets the scores that are outside of their row's range to -infinity: scores[key * step + row].
  void HideOutside(float* scores, size_t step) const {
    for (size_t v = 0; v < vectors_ && plan_.has_hidden; ++v) HideInVector(v, scores, step);
  }

 private:
  void MakePlan(const Tile& tile) {
    const auto keys = static_cast<size_t>(tile.count);
    plan_.count = 0;
    plan_.has_hidden = false;
    if (common_.first <= tile.first && tile.first + tile.count <= common_.last) {
      plan_.segments[plan_.count++] = {0, keys, 0, vectors_};
      return;
    }
    plan_.has_hidden = true;
    SetRanges(tile);
    RowRange ranges[kVectors];
    for (size_t v = 0; v < vectors_; ++v) ranges[v] = UnionOf<kLanes>(v * lanes_);
    for (size_t n = 0; n < keys; n += kRows) {
      AddToPlan({n, std::min(n + kRows, keys), 0, vectors_}, ranges, plan_);
    }
    for (size_t r = 0; r < vectors_ * lanes_; r += kRowsTogether) {
      of_few_[r / kRowsTogether] = UnionOf<kRowsTogether>(r);
    }
  }

  // What each row of the panel may see of the tile.
  void SetRanges(const Tile& tile) {
    const hn::ScalableTag<int64_t> d;
    const hn::RebindToUnsigned<decltype(d)> bits;
    const hn::Rebind<uint32_t, decltype(d)> narrow;
    const hn::RebindToSigned<decltype(narrow)> integers;
    const auto in_tile = [&](const int64_t* keys) HWY_ATTR {
      const auto key = hn::Sub(hn::LoadU(d, keys), hn::Set(d, tile.first));
      return hn::Min(hn::Max(key, hn::Zero(d)), hn::Set(d, tile.count));
    };
    const auto store = [&](auto keys, int32_t* out) HWY_ATTR {
      hn::StoreU(hn::BitCast(integers, hn::TruncateTo(narrow, hn::BitCast(bits, keys))), integers,
                 out);
    };
    for (size_t r = 0; r < vectors_ * lanes_; r += hn::Lanes(d)) {
      const auto first = in_tile(firsts_ + r), last = in_tile(lasts_ + r);
      const auto sees_some = hn::Lt(first, last);
      store(hn::IfThenElse(sees_some, first, hn::Set(d, kTile)), from_ + r);
      store(hn::IfThenElseZero(sees_some, last), to_ + r);
    }
  }

  // Of what rows see, as SetRanges has it: kCount rows from r on; and what all rows of vector v see.
  template <size_t kCount>
  RowRange UnionOf(size_t r) const {
    const hn::CappedTag<int32_t, kCount> d;
    return {hn::GetLane(hn::MinOfLanes(d, hn::LoadU(d, from_ + r))),
            hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, to_ + r)))};
  }
  RowRange CommonOfVector(size_t v) const {
    const Integers d;
    return {hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, from_ + v * lanes_))),
            hn::GetLane(hn::MinOfLanes(d, hn::LoadU(d, to_ + v * lanes_)))};
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

  void HideInVector(size_t v, float* scores, size_t step) const {
    const Floats d;
    const Integers integers;
    const RowRange common = CommonOfVector(v);
    const Vector from = hn::ConvertTo(d, hn::LoadU(integers, from_ + v * lanes_));
    const Vector to = hn::ConvertTo(d, hn::LoadU(integers, to_ + v * lanes_));
    for (const Segment& s : plan_.all()) {
      if (v < s.first_vector || v >= s.last_vector) continue;
      const size_t begin = std::clamp(static_cast<size_t>(common.first), s.first, s.last);
      const size_t end = std::clamp(static_cast<size_t>(common.last), begin, s.last);
      HideOthers(s.first, begin, from, to, scores + v * lanes_, step);
      HideOthers(end, s.last, from, to, scores + v * lanes_, step);
    }
  }

  // Of keys first .. last and a vector of rows, those that are not within [from, to).
  static void HideOthers(size_t first, size_t last, Vector from, Vector to, float* scores,
                         size_t step) {
    const Floats d;
    const Vector hidden = hn::Set(d, kMinusInfinity);
    Vector key = hn::Set(d, static_cast<float>(first));
    for (size_t n = first; n < last; ++n) {
      float* const score = scores + n * step;
      const auto visible = hn::And(hn::Ge(key, from), hn::Lt(key, to));
      hn::Store(hn::IfThenElse(visible, hn::Load(d, score), hidden), d, score);
      key = hn::Add(key, hn::Set(d, 1.0F));
    }
  }

  size_t lanes_ = 0, vectors_ = 0;
  KeySpan common_;  // what all rows see
  int64_t end_ = 0;
  Tile planned_{};  // the tile of the plan; without keys, there is none
  TilePlan plan_;
  RowRange of_few_[kVectors * kLanes / kRowsTogether];            // see UnionOfFew
  int64_t firsts_[kVectors * kLanes], lasts_[kVectors * kLanes];  // of each row
  int32_t from_[kVectors * kLanes], to_[kVectors * kLanes];       // of each row, in the tile
};

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
