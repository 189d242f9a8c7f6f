// The rows of a block and what each may see: plain code that needs no vectors, since only tiles at
// the edge of what is visible, masks and biases come here. Callers: the panel and the few-rows kernel.
#ifndef ATTEST_TILED_FAST_BLOCK_ROWS_H_
#define ATTEST_TILED_FAST_BLOCK_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "impl/tiled/fast/fast_call.h"
#include "impl/tiled/visible_keys.h"

namespace attest::tiled_fast {

// Query position i of query head `head`, which sees keys within `keys`.
struct BlockRow {
  int64_t head, i;
  KeySpan keys;
};

// Keys first .. first + count of a batch item.
struct Tile {
  int64_t first, count;
};

// Half-open range of keys of a tile, counted from its first.
struct TileRange {
  int64_t first = 0, last = 0;
  bool empty() const { return first >= last; }
};

// The score of key n and row r: data[n * key_step + r * row_step].
struct ScoreTile {
  float* data;
  int64_t key_step, row_step;
  float& At(int64_t n, int64_t r) const { return data[n * key_step + r * row_step]; }
};

class BlockRows {
 public:
  explicit BlockRows(const FastCall& fast) : fast_(fast) {}

  // Turns to another block. Returns false where its rows are those of the block before in another kv head, so
  // that they see the same keys.
  bool Reset(const Block& block);

  const Block& block() const { return block_; }
  int64_t size() const { return block_.rows; }
  const BlockRow& operator[](int64_t r) const { return rows_[static_cast<size_t>(r)]; }
  // Whether row r is its head's first. Else it lies one stride behind row r - 1, in q and in out.
  bool StartsHead(int64_t r) const { return (*this)[r].i == 0; }
  // The union of the ranges of all rows.
  KeySpan keys() const { return keys_; }
  // What row r may see of a tile, masks apart.
  TileRange RangeIn(const Tile& tile, int64_t r) const {
    const KeySpan& keys = (*this)[r].keys;
    return {std::clamp<int64_t>(keys.first - tile.first, 0, tile.count),
            std::clamp<int64_t>(keys.last - tile.first, 0, tile.count)};
  }
  // Whether key n of the tile, within RangeIn, is hidden by nothing else.
  bool Attends(const Tile& tile, int64_t n, int64_t r) const;
  // Whether any of rows first .. last sees any key of the tile.
  bool SeesAny(const Tile& tile, int64_t first, int64_t last) const;

  // For rows first .. last, row `first` being row 0 of the scores, and those keys within `keys` of the
  // tile that are in a row's range: adds bias and ALiBi, and sets what masks hide to -infinity.
  void AddBiases(const Tile& tile, TileRange keys, int64_t first, int64_t last,
                 const ScoreTile& scores) const;
  void HideMasked(const Tile& tile, TileRange keys, int64_t first, int64_t last,
                  const ScoreTile& scores) const;

 private:
  void SetRows();
  float Bias(const BlockRow& row, int64_t key) const;

  const FastCall& fast_;
  Block block_;
  std::vector<BlockRow> rows_;
  KeySpan keys_;
};

}  // namespace attest::tiled_fast

#endif  // ATTEST_TILED_FAST_BLOCK_ROWS_H_
