#include "impl/tiled/tiled.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/abi/float_types.h"

namespace attest {
namespace {

// Columns of the packed buffers are padded to this many elements: a multiple of every vector
// register's width, so that all lanes of a column take the same instructions whatever their place.
constexpr int64_t kLanes = 16;

int64_t PaddedToLanes(int64_t size) {
  return (size + kLanes - 1) / kLanes * kLanes;
}

// Half-open range of key positions.
struct KeyRange {
  int64_t first = 0;
  int64_t last = 0;
  bool empty() const { return first >= last; }
};

// What length, causality and window leave to row i of batch item b.
KeyRange RangeOfRow(const CallView& call, int64_t b, int64_t i) {
  const int64_t diagonal = i + call.DiagonalOffset(b);
  KeyRange range{0, call.KeyLength(b)};
  if (call.causal) range.last = std::min(range.last, diagonal + 1);
  if (call.window_right) range.last = std::min(range.last, diagonal + *call.window_right + 1);
  if (call.window_left) range.first = std::max(range.first, diagonal - *call.window_left);
  return range;
}

// exp(score - max), with a score of -inf at weight 0 even while the maximum itself is -inf, where
// the difference would be NaN. A NaN score gives NaN.
template <typename A>
A WeightOf(A score, A max) {
  if (score == -std::numeric_limits<A>::infinity()) return A{0};
  return std::exp(score - max);
}

// A matrix of the call as Eigen sees it: `rows` steps of one stride, `cols` of another.
template <typename T>
auto MapOf(T* data, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  using Plain = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic>;
  using Matrix = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  using Steps = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  return Eigen::Map<Matrix, Eigen::Unaligned, Steps>(data, rows, cols,
                                                     Steps(col_stride, row_stride));
}

// One call with element type T; sums are kept in A.
template <typename T>
class TiledRun {
 public:
  using A = AccumulatorOf<T>;

  TiledRun(const CallView& call, const TiledOptions& options);
  void Run();

 private:
  using Matrix = Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic>;
  using Bits = Eigen::Array<bool, Eigen::Dynamic, Eigen::Dynamic>;

  // The query rows being worked on: rows first .. first + rows of head `head`, item `batch`.
  struct Block {
    int64_t batch, head, first, rows;
    KeyRange keys;  // the union of the rows' ranges
  };
  struct Tile {
    int64_t first, keys;
  };

  void RunBlock(Block block);
  template <typename Visitor>
  void ForEachVisibleTile(const Block& block, Visitor&& visit);
  void PackQueries(const Block& block);
  bool MarkVisible(const Block& block, const Tile& tile);
  bool IsVisible(const Block& block, int64_t i, int64_t j) const;
  void ComputeScores(const Block& block, const Tile& tile);
  void PackValues(const Block& block, const Tile& tile);
  void AbsorbTile(int64_t row, const Tile& tile);
  void WriteOut(const Block& block);
  void WriteLse(const Block& block);
  void WriteWeights(const Block& block);

  const CallView& call_;
  const int64_t tile_;
  const int64_t qtile_;
  const A scale_;

  Matrix queries_;  // [head_dim, qtile]
  Matrix keys_;     // [tile padded, head_dim]
  Matrix values_;   // [value_dim padded, tile]
  Matrix scores_;   // [tile padded, qtile]
  Bits visible_;    // [tile, qtile]

  // The running state of each row of the block.
  Matrix sums_;                                 // [value_dim padded, qtile]: sum of weight * v
  Eigen::Array<A, Eigen::Dynamic, 1> max_;      // largest visible score so far
  Eigen::Array<A, Eigen::Dynamic, 1> weight_;   // sum of weights
  Eigen::Array<bool, Eigen::Dynamic, 1> seen_;  // has seen a visible key
};

// Sizes at most what the call needs: tile=1000000 costs no memory on short sequences.
template <typename T>
TiledRun<T>::TiledRun(const CallView& call, const TiledOptions& options)
    : call_(call),
      tile_(std::clamp<int64_t>(call.kv_len, 1, options.tile)),
      qtile_(std::clamp<int64_t>(call.q_len, 1, options.qtile)),
      scale_(static_cast<A>(call.scale)),
      queries_(call.head_dim, qtile_),
      keys_(PaddedToLanes(tile_), call.head_dim),
      values_(PaddedToLanes(call.value_dim), tile_),
      scores_(PaddedToLanes(tile_), qtile_),
      visible_(tile_, qtile_),
      sums_(PaddedToLanes(call.value_dim), qtile_),
      max_(qtile_),
      weight_(qtile_),
      seen_(qtile_) {
  keys_.setZero();  // the padding is computed with, though never looked at
  values_.setZero();
}

template <typename T>
void TiledRun<T>::Run() {
  for (int64_t b = 0; b < call_.batch; ++b) {
    for (int64_t h = 0; h < call_.q_heads; ++h) {
      for (int64_t i = 0; i < call_.q_len; i += qtile_) {
        RunBlock({b, h, i, std::min(qtile_, call_.q_len - i), {}});
      }
    }
  }
}

template <typename T>
void TiledRun<T>::RunBlock(Block block) {
  block.keys = {call_.kv_len, 0};
  for (int64_t r = 0; r < block.rows; ++r) {
    const KeyRange range = RangeOfRow(call_, block.batch, block.first + r);
    if (range.empty()) continue;
    block.keys.first = std::min(block.keys.first, range.first);
    block.keys.last = std::max(block.keys.last, range.last);
  }
  PackQueries(block);
  sums_.setZero();
  max_.setConstant(-std::numeric_limits<A>::infinity());
  weight_.setZero();
  seen_.setConstant(false);
  ForEachVisibleTile(block, [&](const Tile& tile) {
    PackValues(block, tile);
    for (int64_t r = 0; r < block.rows; ++r) AbsorbTile(r, tile);
  });
  WriteOut(block);
  if (call_.lse) WriteLse(block);
  if (call_.weights) WriteWeights(block);
}

// Calls visit(tile), with scores and visibility computed, for each tile that has a visible key.
template <typename T>
template <typename Visitor>
void TiledRun<T>::ForEachVisibleTile(const Block& block, Visitor&& visit) {
  if (block.keys.empty()) return;
  for (int64_t j = block.keys.first / tile_ * tile_; j < block.keys.last; j += tile_) {
    const Tile tile{j, std::min(tile_, call_.kv_len - j)};
    if (!MarkVisible(block, tile)) continue;
    ComputeScores(block, tile);
    visit(tile);
  }
}

template <typename T>
void TiledRun<T>::PackQueries(const Block& block) {
  if (call_.head_dim == 0) return;
  const T* first = call_.q.Pointer<const T>(block.batch, block.head, block.first, 0);
  queries_.leftCols(block.rows) =
      MapOf(first, call_.head_dim, block.rows, call_.q.strides[3], call_.q.strides[2])
          .template cast<A>();
}

// Whether the masks let row i see key j, which lies within the row's range.
template <typename T>
bool TiledRun<T>::IsVisible(const Block& block, int64_t i, int64_t j) const {
  if (call_.mask && call_.mask->At<const uint8_t>(block.batch, block.head, i, j) == 0) return false;
  if (!call_.bias) return true;
  const A bias = static_cast<A>(call_.bias->At<const T>(block.batch, block.head, i, j));
  return bias != -std::numeric_limits<A>::infinity();
}

// Fills visible_ for the tile; false when nothing in it is.
template <typename T>
bool TiledRun<T>::MarkVisible(const Block& block, const Tile& tile) {
  bool any = false;
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t i = block.first + r;
    const KeyRange range = RangeOfRow(call_, block.batch, i);
    for (int64_t n = 0; n < tile.keys; ++n) {
      const int64_t j = tile.first + n;
      visible_(n, r) = j >= range.first && j < range.last && IsVisible(block, i, j);
      any = any || visible_(n, r);
    }
  }
  return any;
}

// scores_ = scale * K q, plus the bias where visible. Hidden keys are computed with, each in a lane
// of its own that nothing reads.
template <typename T>
void TiledRun<T>::ComputeScores(const Block& block, const Tile& tile) {
  if (call_.head_dim != 0) {
    const T* first = call_.k.Pointer<const T>(block.batch, call_.KvHead(block.head), tile.first, 0);
    keys_.topRows(tile.keys) =
        MapOf(first, tile.keys, call_.head_dim, call_.k.strides[2], call_.k.strides[3])
            .template cast<A>();
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    auto scores = scores_.col(r);
    scores.setZero();
    for (int64_t c = 0; c < call_.head_dim; ++c) scores += queries_(c, r) * keys_.col(c);
    scores *= scale_;
    if (!call_.bias) continue;
    for (int64_t n = 0; n < tile.keys; ++n) {
      if (!visible_(n, r)) continue;
      scores(n) += static_cast<A>(
          call_.bias->At<const T>(block.batch, block.head, block.first + r, tile.first + n));
    }
  }
}

template <typename T>
void TiledRun<T>::PackValues(const Block& block, const Tile& tile) {
  if (call_.value_dim == 0) return;
  const T* first = call_.v.Pointer<const T>(block.batch, call_.KvHead(block.head), tile.first, 0);
  values_.topLeftCorner(call_.value_dim, tile.keys) =
      MapOf(first, call_.value_dim, tile.keys, call_.v.strides[3], call_.v.strides[2])
          .template cast<A>();
}

// Step 4 of the header: one row takes in one tile.
template <typename T>
void TiledRun<T>::AbsorbTile(int64_t row, const Tile& tile) {
  A max = max_(row);
  bool any = false;
  for (int64_t n = 0; n < tile.keys; ++n) {
    if (!visible_(n, row)) continue;
    any = true;
    max = scores_(n, row) > max ? scores_(n, row) : max;  // passes NaN over; its weight shows it
  }
  if (!any) return;
  const A shrink = WeightOf(max_(row), max);
  sums_.col(row) *= shrink;
  weight_(row) *= shrink;
  for (int64_t n = 0; n < tile.keys; ++n) {
    if (!visible_(n, row)) continue;
    const A weight = WeightOf(scores_(n, row), max);
    weight_(row) += weight;
    sums_.col(row) += weight * values_.col(n);
  }
  max_(row) = max;
  seen_(row) = true;
}

template <typename T>
void TiledRun<T>::WriteOut(const Block& block) {
  if (call_.value_dim == 0) return;
  for (int64_t r = 0; r < block.rows; ++r) {
    T* first = call_.out.Pointer<T>(block.batch, block.head, block.first + r, 0);
    auto out = MapOf(first, call_.value_dim, 1, call_.out.strides[3], call_.out.strides[2]);
    if (seen_(r)) {
      out = (sums_.col(r).head(call_.value_dim) / weight_(r)).template cast<T>();
    } else {
      out.setZero();
    }
  }
}

template <typename T>
void TiledRun<T>::WriteLse(const Block& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    call_.lse->At<A>(block.batch, block.head, block.first + r, 0) =
        seen_(r) ? max_(r) + std::log(weight_(r)) : -std::numeric_limits<A>::infinity();
  }
}

template <typename T>
void TiledRun<T>::WriteWeights(const Block& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      call_.weights->At<T>(block.batch, block.head, block.first + r, j) = T(0);
    }
  }
  ForEachVisibleTile(block, [&](const Tile& tile) {
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t n = 0; n < tile.keys; ++n) {
        if (!visible_(n, r)) continue;
        call_.weights->At<T>(block.batch, block.head, block.first + r, tile.first + n) =
            static_cast<T>(WeightOf(scores_(n, r), max_(r)) / weight_(r));
      }
    }
  });
}

}  // namespace

void TiledAttention(const CallView& call, const TiledOptions& options) {
  WithFloatType(call.dtype, [&](auto zero) { TiledRun<decltype(zero)>(call, options).Run(); });
}

}  // namespace attest
