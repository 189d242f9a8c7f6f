#include "impl/tiled/tiled.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/abi/row_threads.h"
#include "impl/tiled/visible_keys.h"

namespace attest {
namespace {

// Columns of the packed buffers are padded to this many elements: a multiple of every vector
// register's width, so that all lanes of a column take the same instructions whatever their place.
constexpr int64_t kLanes = 16;

int64_t PaddedToLanes(int64_t size) {
  return (size + kLanes - 1) / kLanes * kLanes;
}

// target += factor * source, of `size` elements: a multiple of kLanes. Both are columns of packed
// buffers, and so aligned.
template <typename A>
void AddScaled(A* target, const A* source, A factor, int64_t size) {
  using Lanes = Eigen::Array<A, kLanes, 1>;
  for (int64_t n = 0; n < size; n += kLanes) {
    Eigen::Map<Lanes, Eigen::Aligned16>(target + n) +=
        factor * Eigen::Map<const Lanes, Eigen::Aligned16>(source + n);
  }
}

// exp(score - max), with a score of -inf at weight 0 even while the maximum itself is -inf, where
// the difference would be NaN. A NaN score gives NaN.
template <typename A>
A WeightOf(A score, A max) {
  if (score == -std::numeric_limits<A>::infinity()) return A{0};
  return std::exp(score - max);
}

int64_t RowsOfBlock(const CallView& call, const TiledOptions& options) {
  return std::clamp<int64_t>(call.q_len, 1, options.qtile);
}

// visit(batch, head, first, rows) for every block of at most `qtile` query rows.
template <typename Visitor>
void ForEachBlock(const CallView& call, int64_t qtile, Visitor&& visit) {
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.q_heads; ++h) {
      const int64_t rows = call.StoredRows(b);
      for (int64_t i = 0; i < rows; i += qtile) visit(b, h, i, std::min(qtile, rows - i));
    }
  }
}

// One call with element type T, or a part of it; sums are kept in A.
template <typename T>
class TiledRun {
 public:
  using A = AccumulatorOf<T>;

  TiledRun(const CallView& call, const TiledOptions& options);
  // Computes the blocks with the numbers [first, last), in the order of ForEachBlock.
  void Run(int64_t first, int64_t last);

 private:
  using Matrix = Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic>;
  using Bits = Eigen::Array<bool, Eigen::Dynamic, Eigen::Dynamic>;

  // The query rows being worked on: rows first .. first + rows of head `head`, item `batch`.
  struct Block {
    int64_t batch, head, first, rows;
    KeySpan keys;  // the union of the rows' ranges
  };
  struct Tile {
    int64_t first, keys;
  };

  void RunBlock(Block block);
  template <typename Visitor>
  void ForEachVisibleTile(const Block& block, Visitor&& visit);
  void PackQueries(const Block& block);
  void PackKeys(const Block& block, const Tile& tile);
  void PackValues(const Block& block, const Tile& tile);
  bool MarkVisible(const Block& block, const Tile& tile);
  void ComputeProducts(const Block& block, const Tile& tile);
  void CapScores(const Block& block, const Tile& tile);
  void AddBiases(const Block& block, const Tile& tile);
  void AbsorbTile(const Block& block, int64_t row, const Tile& tile);
  A KeptShare(const Block& block, int64_t i, int64_t j) const;
  void WriteOut(const Block& block);
  void WriteLse(const Block& block);
  void WriteScores(const Block& block);
  void WriteEarlyScores(const Block& block);
  void WriteWeights(const Block& block, const TensorView& target);
  template <typename Value>
  void WritePlane(const Block& block, const TensorView& target, A hidden, Value&& value);

  const CallView& call_;
  const InputRows<T> rows_;
  const int64_t tile_;
  const int64_t qtile_;
  const A scale_;
  const bool has_masks_;  // something beside length, causality and window hides keys
  const A kept_share_;    // what dropout makes of a weight that it keeps

  Matrix queries_;  // [head_dim, qtile]
  Matrix keys_;     // [tile padded, head_dim]
  Matrix values_;   // [value_dim padded, tile]
  Matrix scores_;   // [tile padded, qtile]
  Bits visible_;    // [tile, qtile]

  // The running state of each row of the block.
  Matrix sums_;                                 // [value_dim padded, qtile]: sum of weight * v
  Eigen::Array<A, Eigen::Dynamic, 1> max_;      // largest visible score, or the sink, so far
  Eigen::Array<A, Eigen::Dynamic, 1> weight_;   // sum of weights
  Eigen::Array<bool, Eigen::Dynamic, 1> seen_;  // has seen a visible key
};

// Sizes at most what the call needs: tile=1000000 costs no memory on short sequences.
template <typename T>
TiledRun<T>::TiledRun(const CallView& call, const TiledOptions& options)
    : call_(call),
      rows_(call),
      tile_(std::clamp<int64_t>(call.kv_len, 1, options.tile)),
      qtile_(RowsOfBlock(call, options)),
      scale_(static_cast<A>(call.scale)),
      has_masks_(HasMasks(call)),
      kept_share_(static_cast<A>(call.dropout ? 1 / (1 - call.dropout->probability) : 1)),
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
void TiledRun<T>::Run(int64_t first, int64_t last) {
  int64_t number = 0;
  ForEachBlock(call_, qtile_, [&](int64_t b, int64_t h, int64_t i, int64_t rows) {
    if (number >= first && number < last) RunBlock({b, h, i, rows, {}});
    ++number;
  });
}

template <typename T>
void TiledRun<T>::RunBlock(Block block) {
  block.keys = {call_.kv_len, 0};
  for (int64_t r = 0; r < block.rows; ++r) {
    const KeySpan range = RangeOfRow(call_, block.batch, block.first + r);
    if (range.empty()) continue;
    block.keys.first = std::min(block.keys.first, range.first);
    block.keys.last = std::max(block.keys.last, range.last);
  }
  PackQueries(block);
  constexpr A kMinusInfinity = -std::numeric_limits<A>::infinity();
  const A sink = call_.sinks ? static_cast<A>((*call_.sinks)[static_cast<size_t>(block.head)])
                             : kMinusInfinity;
  sums_.setZero();
  max_.setConstant(sink);
  weight_.setConstant(sink == kMinusInfinity ? A{0} : A{1});
  seen_.setConstant(false);
  ForEachVisibleTile(block, [&](const Tile& tile) {
    PackValues(block, tile);
    for (int64_t r = 0; r < block.rows; ++r) AbsorbTile(block, r, tile);
  });
  WriteOut(block);
  if (call_.lse) WriteLse(block);
  if (call_.weights) WriteWeights(block, *call_.weights);
  if (call_.scores) WriteScores(block);
}

// Calls visit(tile), with scores and visibility computed, for each tile that has a visible key.
template <typename T>
template <typename Visitor>
void TiledRun<T>::ForEachVisibleTile(const Block& block, Visitor&& visit) {
  if (block.keys.empty()) return;
  const int64_t end = call_.StoredKeys(block.batch);
  for (int64_t j = block.keys.first / tile_ * tile_; j < block.keys.last; j += tile_) {
    const Tile tile{j, std::min(tile_, end - j)};
    if (!MarkVisible(block, tile)) continue;
    ComputeProducts(block, tile);
    if (call_.softcap != 0) CapScores(block, tile);
    if (call_.bias || call_.alibi_slopes) AddBiases(block, tile);
    visit(tile);
  }
}

template <typename T>
void TiledRun<T>::PackQueries(const Block& block) {
  if (call_.head_dim == 0) return;
  for (int64_t r = 0; r < block.rows; ++r) {
    rows_.Query(block.batch, block.head, block.first + r, queries_.col(r).data());
  }
}

template <typename T>
void TiledRun<T>::PackKeys(const Block& block, const Tile& tile) {
  if (call_.head_dim == 0) return;
  const int64_t head = call_.KvHead(block.head);
  for (int64_t n = 0; n < tile.keys; ++n) {
    rows_.Key(block.batch, head, tile.first + n, keys_.data() + n, keys_.rows());
  }
}

template <typename T>
void TiledRun<T>::PackValues(const Block& block, const Tile& tile) {
  if (call_.value_dim == 0) return;
  const int64_t head = call_.KvHead(block.head);
  for (int64_t n = 0; n < tile.keys; ++n) {
    rows_.Value(block.batch, head, tile.first + n, values_.col(n).data());
  }
}

// Fills visible_ for the tile; false when nothing in it is.
template <typename T>
bool TiledRun<T>::MarkVisible(const Block& block, const Tile& tile) {
  bool any = false;
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t i = block.first + r;
    const KeySpan range = RangeOfRow(call_, block.batch, i);
    for (int64_t n = 0; n < tile.keys; ++n) {
      const int64_t j = tile.first + n;
      visible_(n, r) = j >= range.first && j < range.last &&
                       (!has_masks_ || MasksAttend<T>(call_, block.batch, block.head, i, j));
      any = any || visible_(n, r);
    }
  }
  return any;
}

// scores_ = scale * K q. Hidden keys are computed with, each in a lane of its own that only raw and
// capped scores outputs ever read.
template <typename T>
void TiledRun<T>::ComputeProducts(const Block& block, const Tile& tile) {
  PackKeys(block, tile);
  for (int64_t r = 0; r < block.rows; ++r) {
    auto scores = scores_.col(r);
    scores.setZero();
    for (int64_t c = 0; c < call_.head_dim; ++c) {
      AddScaled(scores.data(), keys_.data() + c * keys_.rows(), queries_(c, r), keys_.rows());
    }
    scores *= scale_;
  }
}

template <typename T>
void TiledRun<T>::CapScores(const Block& block, const Tile& tile) {
  const A cap = static_cast<A>(call_.softcap);
  for (int64_t r = 0; r < block.rows; ++r) {
    for (int64_t n = 0; n < tile.keys; ++n) scores_(n, r) = cap * std::tanh(scores_(n, r) / cap);
  }
}

template <typename T>
void TiledRun<T>::AddBiases(const Block& block, const Tile& tile) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t i = block.first + r;
    for (int64_t n = 0; n < tile.keys; ++n) {
      if (!visible_(n, r)) continue;
      const int64_t j = tile.first + n;
      if (call_.bias) scores_(n, r) += BiasAt<T>(call_, block.batch, block.head, i, j);
      if (call_.alibi_slopes) scores_(n, r) += AlibiAt<T>(call_, block.batch, block.head, i, j);
    }
  }
}

// What dropout makes of a weight: a factor, 0 where the weight is dropped.
template <typename T>
typename TiledRun<T>::A TiledRun<T>::KeptShare(const Block& block, int64_t i, int64_t j) const {
  const bool kept =
      call_.dropout->keep.template At<const uint8_t>(block.batch, block.head, i, j) != 0;
  return kept ? kept_share_ : A{0};
}

// Step 4 of the header: one row takes in one tile.
template <typename T>
void TiledRun<T>::AbsorbTile(const Block& block, int64_t row, const Tile& tile) {
  A max = max_(row);
  bool any = false;
  for (int64_t n = 0; n < tile.keys; ++n) {
    if (!visible_(n, row)) continue;
    any = true;
    max = scores_(n, row) > max ? scores_(n, row) : max;  // passes NaN over; its weight shows it
  }
  if (!any) return;
  A* sums = sums_.data() + row * sums_.rows();
  const A shrink = WeightOf(max_(row), max);
  sums_.col(row) *= shrink;
  weight_(row) *= shrink;
  for (int64_t n = 0; n < tile.keys; ++n) {
    if (!visible_(n, row)) continue;
    A weight = WeightOf(scores_(n, row), max);
    weight_(row) += weight;
    if (call_.dropout) weight *= KeptShare(block, block.first + row, tile.first + n);
    AddScaled(sums, values_.data() + n * values_.rows(), weight, values_.rows());
  }
  max_(row) = max;
  seen_(row) = true;
}

template <typename T>
void TiledRun<T>::WriteOut(const Block& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const RowSpan<T> out = call_.OutAt<T>(block.batch, block.head, block.first + r);
    for (int64_t c = 0; c < call_.value_dim; ++c) {
      out[c] = static_cast<T>(seen_(r) ? sums_(c, r) / weight_(r) : A{0});
    }
  }
}

template <typename T>
void TiledRun<T>::WriteLse(const Block& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const bool has_terms = seen_(r) || call_.sinks;
    call_.LseAt<A>(block.batch, block.head, block.first + r) =
        has_terms ? max_(r) + std::log(weight_(r)) : -std::numeric_limits<A>::infinity();
  }
}

// Sets the block's rows of a [batch, q_heads, q_len, kv_len] output: value(n, r) of the keys that are
// visible, in a walk over their tiles, and `hidden` elsewhere.
template <typename T>
template <typename Value>
void TiledRun<T>::WritePlane(const Block& block, const TensorView& target, A hidden,
                             Value&& value) {
  for (int64_t r = 0; r < block.rows; ++r) {
    for (int64_t j = 0; j < call_.kv_len; ++j) {
      target.At<T>(block.batch, block.head, block.first + r, j) = static_cast<T>(hidden);
    }
  }
  ForEachVisibleTile(block, [&](const Tile& tile) {
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t n = 0; n < tile.keys; ++n) {
        if (!visible_(n, r)) continue;
        target.At<T>(block.batch, block.head, block.first + r, tile.first + n) =
            static_cast<T>(value(n, r));
      }
    }
  });
}

template <typename T>
void TiledRun<T>::WriteWeights(const Block& block, const TensorView& target) {
  WritePlane(block, target, A{0},
             [&](int64_t n, int64_t r) { return WeightOf(scores_(n, r), max_(r)) / weight_(r); });
}

template <typename T>
void TiledRun<T>::WriteScores(const Block& block) {
  switch (call_.score_mode) {
    case 2:
      return WritePlane(block, *call_.scores, -std::numeric_limits<A>::infinity(),
                        [&](int64_t n, int64_t r) { return scores_(n, r); });
    case 3:
      return WriteWeights(block, *call_.scores);
    default:
      return WriteEarlyScores(block);
  }
}

// Raw and capped scores: those of hidden keys too.
template <typename T>
void TiledRun<T>::WriteEarlyScores(const Block& block) {
  for (int64_t j = 0; j < call_.kv_len; j += tile_) {
    const Tile tile{j, std::min(tile_, call_.kv_len - j)};
    ComputeProducts(block, tile);
    if (call_.score_mode == 1 && call_.softcap != 0) CapScores(block, tile);
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t n = 0; n < tile.keys; ++n) {
        call_.scores->At<T>(block.batch, block.head, block.first + r, j + n) =
            static_cast<T>(scores_(n, r));
      }
    }
  }
}

}  // namespace

void TiledAttention(const CallView& call, const TiledOptions& options) {
  WithFloatType(call.dtype, [&](auto zero) {
    int64_t blocks = 0;
    ForEachBlock(call, RowsOfBlock(call, options), [&](auto&&...) { ++blocks; });
    ForEachPart(blocks, options.threads, [&](int64_t first, int64_t last) {
      TiledRun<decltype(zero)>(call, options).Run(first, last);
    });
    WritePresent<decltype(zero)>(call);
  });
}

}  // namespace attest
