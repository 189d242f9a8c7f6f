#include "impl/tiled/fast/block_rows.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace attest::tiled_fast {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// The part of `keys` that lies in `range`.
TileRange Common(const TileRange& keys, const TileRange& range) {
  return {std::max(keys.first, range.first), std::min(keys.last, range.last)};
}

}  // namespace

bool BlockRows::Reset(const Block& block) {
  const Block before = std::exchange(block_, block);
  if (block.batch != before.batch || block.first != before.first || block.rows != before.rows) {
    SetRows();
    return true;
  }
  const int64_t heads = (block.kv_head - before.kv_head) * fast_.group;
  for (BlockRow& row : rows_) row.head += heads;
  return false;
}

void BlockRows::SetRows() {
  rows_.resize(static_cast<size_t>(block_.rows));
  keys_ = {fast_.call.kv_len, 0};
  const int64_t stored = fast_.call.StoredRows(block_.batch);
  int64_t head = block_.kv_head * fast_.group + block_.first / stored;
  int64_t i = block_.first % stored;
  const RowRanges ranges(fast_.call, block_.batch);
  for (BlockRow& row : rows_) {
    row.head = head;
    row.i = i;
    if (++i == stored) {
      i = 0;
      ++head;
    }
    row.keys = ranges.Of(row.i);
    if (row.keys.empty()) continue;
    keys_.first = std::min(keys_.first, row.keys.first);
    keys_.last = std::max(keys_.last, row.keys.last);
  }
}

bool BlockRows::Attends(const Tile& tile, int64_t n, int64_t r) const {
  if (!fast_.has_masks) return true;
  const BlockRow& row = (*this)[r];
  bool attends = false;
  WithStorage(fast_.call.dtype, [&](auto zero) {
    attends =
        MasksAttend<decltype(zero)>(fast_.call, block_.batch, row.head, row.i, tile.first + n);
  });
  return attends;
}

bool BlockRows::SeesAny(const Tile& tile, int64_t first, int64_t last) const {
  for (int64_t r = first; r < last; ++r) {
    const TileRange range = RangeIn(tile, r);
    for (int64_t n = range.first; n < range.last; ++n) {
      if (Attends(tile, n, r)) return true;
    }
  }
  return false;
}

float BlockRows::Bias(const BlockRow& row, int64_t key) const {
  const CallView& call = fast_.call;
  float sum = 0;
  WithStorage(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (call.bias) sum += static_cast<float>(BiasAt<T>(call, block_.batch, row.head, row.i, key));
    if (call.alibi_slopes) {
      sum += static_cast<float>(AlibiAt<T>(call, block_.batch, row.head, row.i, key));
    }
  });
  return sum;
}

void BlockRows::AddBiases(const Tile& tile, TileRange keys, int64_t first, int64_t last,
                          const ScoreTile& scores) const {
  for (int64_t r = first; r < last; ++r) {
    const TileRange range = Common(keys, RangeIn(tile, r));
    for (int64_t n = range.first; n < range.last; ++n) {
      scores.At(n, r - first) += Bias((*this)[r], tile.first + n) * kLog2E;
    }
  }
}

void BlockRows::HideMasked(const Tile& tile, TileRange keys, int64_t first, int64_t last,
                           const ScoreTile& scores) const {
  for (int64_t r = first; r < last; ++r) {
    const TileRange range = Common(keys, RangeIn(tile, r));
    for (int64_t n = range.first; n < range.last; ++n) {
      if (!Attends(tile, n, r)) scores.At(n, r - first) = kHidden;
    }
  }
}

}  // namespace attest::tiled_fast
