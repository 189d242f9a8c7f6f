#include "impl/tiled/backward.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"
#include "impl/abi/row_threads.h"
#include "impl/tiled/visible_keys.h"

namespace attest {
namespace {

template <typename A>
A Dot(const A* a, const A* b, int64_t size) {
  A sum = 0;
  for (int64_t n = 0; n < size; ++n) sum += a[n] * b[n];
  return sum;
}

template <typename A>
void AddScaled(A* target, const A* source, A factor, int64_t size) {
  for (int64_t n = 0; n < size; ++n) target[n] += factor * source[n];
}

// Rows of one width, end to end.
template <typename A>
class RowBuffer {
 public:
  RowBuffer(int64_t rows, int64_t width)
      : width_(width), values_(static_cast<size_t>(rows * width), A{0}) {}
  A* Row(int64_t row) { return values_.data() + row * width_; }
  void Clear() { std::fill(values_.begin(), values_.end(), A{0}); }

 private:
  int64_t width_;
  std::vector<A> values_;
};

// Component d of a row of `view` is read to or written from row[d].
template <typename T, typename A>
void ReadRow(const TensorView& view, int64_t b, int64_t h, int64_t i, A* row) {
  for (int64_t d = 0; d < view.shape[3]; ++d) row[d] = static_cast<A>(view.At<const T>(b, h, i, d));
}
template <typename T, typename A>
void WriteRow(const TensorView& view, int64_t b, int64_t h, int64_t i, const A* row, A factor) {
  for (int64_t d = 0; d < view.shape[3]; ++d)
    view.At<T>(b, h, i, d) = static_cast<T>(row[d] * factor);
}

// One call with element type T, or a part of it; sums are kept in A.
template <typename T>
class BackwardRun {
 public:
  using A = AccumulatorOf<T>;

  BackwardRun(const CallView& call, int64_t tile);
  // The kv heads with the numbers [first, last), batch-major.
  void Run(int64_t first, int64_t last);

 private:
  // A row of the kv head at hand, with its place among the rows of all its query heads.
  struct Row {
    int64_t batch, head, query, place;
  };

  template <typename Visitor>
  void ForEachRow(int64_t b, int64_t kv_head, Visitor&& visit) const;
  void RunHead(int64_t b, int64_t kv_head);
  void RunTile(int64_t b, int64_t kv_head, int64_t first, int64_t keys);
  void AddRow(const Row& row, int64_t first, int64_t keys);
  A ScoreOf(const Row& row, int64_t j, const A* key, A* slope) const;
  A KeptShare(const Row& row, int64_t j) const;

  const CallView& call_;
  const GradientsView& gradients_;
  const InputRows<T> rows_;
  const int64_t tile_, group_;  // keys a tile; query heads a kv head
  const A scale_;
  const bool has_masks_;
  const A kept_share_;  // what dropout makes of a weight that it keeps

  RowBuffer<A> query_sums_;             // [rows of the group, head_dim]: dq, not yet scaled
  std::vector<A> deltas_;               // [rows of the group]
  RowBuffer<A> keys_, values_;          // of the tile
  RowBuffer<A> key_sums_, value_sums_;  // dk, not yet scaled, and dv
  std::vector<A> query_, dout_, out_;   // of the row at hand
};

template <typename T>
BackwardRun<T>::BackwardRun(const CallView& call, int64_t tile)
    : call_(call),
      gradients_(*call.gradients),
      rows_(call),
      tile_(std::clamp<int64_t>(call.kv_len, 1, tile)),
      group_(call.kv_heads == 0 ? 0 : call.q_heads / call.kv_heads),
      scale_(static_cast<A>(call.scale)),
      has_masks_(HasMasks(call)),
      kept_share_(static_cast<A>(call.dropout ? 1 / (1 - call.dropout->probability) : 1)),
      query_sums_(group_ * call.q_len, call.head_dim),
      deltas_(static_cast<size_t>(group_ * call.q_len)),
      keys_(tile_, call.head_dim),
      values_(tile_, call.value_dim),
      key_sums_(tile_, call.head_dim),
      value_sums_(tile_, call.value_dim),
      query_(static_cast<size_t>(call.head_dim)),
      dout_(static_cast<size_t>(call.value_dim)),
      out_(static_cast<size_t>(call.value_dim)) {}

template <typename T>
void BackwardRun<T>::Run(int64_t first, int64_t last) {
  for (int64_t n = first; n < last; ++n) RunHead(n / call_.kv_heads, n % call_.kv_heads);
}

// Calls visit(Row) for the rows that have a part: those that are no padding, head by head.
template <typename T>
template <typename Visitor>
void BackwardRun<T>::ForEachRow(int64_t b, int64_t kv_head, Visitor&& visit) const {
  for (int64_t g = 0; g < group_; ++g) {
    for (int64_t i = 0; i < call_.QueryLength(b); ++i) {
      visit(Row{b, kv_head * group_ + g, i, g * call_.q_len + i});
    }
  }
}

template <typename T>
void BackwardRun<T>::RunHead(int64_t b, int64_t kv_head) {
  query_sums_.Clear();
  ForEachRow(b, kv_head, [&](const Row& row) {
    ReadRow<T>(gradients_.dout, b, row.head, row.query, dout_.data());
    ReadRow<T>(call_.out, b, row.head, row.query, out_.data());
    deltas_[static_cast<size_t>(row.place)] = Dot(dout_.data(), out_.data(), call_.value_dim);
  });
  for (int64_t j = 0; j < call_.kv_len; j += tile_) {
    RunTile(b, kv_head, j, std::min(tile_, call_.kv_len - j));
  }
  for (int64_t g = 0; g < group_; ++g) {
    for (int64_t i = 0; i < call_.q_len; ++i) {
      WriteRow<T>(gradients_.dq, b, kv_head * group_ + g, i, query_sums_.Row(g * call_.q_len + i),
                  scale_);
    }
  }
}

template <typename T>
void BackwardRun<T>::RunTile(int64_t b, int64_t kv_head, int64_t first, int64_t keys) {
  for (int64_t n = 0; n < keys; ++n) {
    rows_.Key(b, kv_head, first + n, keys_.Row(n));
    rows_.Value(b, kv_head, first + n, values_.Row(n));
  }
  key_sums_.Clear();
  value_sums_.Clear();
  ForEachRow(b, kv_head, [&](const Row& row) { AddRow(row, first, keys); });
  for (int64_t n = 0; n < keys; ++n) {
    WriteRow<T>(gradients_.dk, b, kv_head, first + n, key_sums_.Row(n), scale_);
    WriteRow<T>(gradients_.dv, b, kv_head, first + n, value_sums_.Row(n), A{1});
  }
}

// One row's part in one tile: step 2 of the header.
template <typename T>
void BackwardRun<T>::AddRow(const Row& row, int64_t first, int64_t keys) {
  KeySpan range = RangeOfRow(call_, row.batch, row.query);
  range = {std::max(range.first, first), std::min(range.last, first + keys)};
  if (range.empty()) return;
  rows_.Query(row.batch, row.head, row.query, query_.data());
  ReadRow<T>(gradients_.dout, row.batch, row.head, row.query, dout_.data());
  const A lse = call_.LseAt<A>(row.batch, row.head, row.query);
  const A delta = deltas_[static_cast<size_t>(row.place)];
  for (int64_t j = range.first; j < range.last; ++j) {
    if (has_masks_ && !MasksAttend<T>(call_, row.batch, row.head, row.query, j)) continue;
    const int64_t n = j - first;
    A slope = 1;
    const A weight = std::exp(ScoreOf(row, j, keys_.Row(n), &slope) - lse);
    const A kept = KeptShare(row, j);
    const A dweight = kept * Dot(dout_.data(), values_.Row(n), call_.value_dim);
    const A dscore = weight * (dweight - delta) * slope;
    AddScaled(value_sums_.Row(n), dout_.data(), weight * kept, call_.value_dim);
    AddScaled(key_sums_.Row(n), query_.data(), dscore, call_.head_dim);
    AddScaled(query_sums_.Row(row.place), keys_.Row(n), dscore, call_.head_dim);
  }
}

// The score as the forward pass has it, and what a change of scale * q.k becomes in it.
template <typename T>
typename BackwardRun<T>::A BackwardRun<T>::ScoreOf(const Row& row, int64_t j, const A* key,
                                                   A* slope) const {
  A score = scale_ * Dot(query_.data(), key, call_.head_dim);
  if (call_.softcap != 0) {
    const A cap = static_cast<A>(call_.softcap);
    const A tanh = std::tanh(score / cap);
    score = cap * tanh;
    *slope = (1 - tanh) * (1 + tanh);
  }
  if (call_.bias) score += BiasAt<T>(call_, row.batch, row.head, row.query, j);
  if (call_.alibi_slopes) score += AlibiAt<T>(call_, row.batch, row.head, row.query, j);
  return score;
}

template <typename T>
typename BackwardRun<T>::A BackwardRun<T>::KeptShare(const Row& row, int64_t j) const {
  if (!call_.dropout) return 1;
  const bool kept =
      call_.dropout->keep.template At<const uint8_t>(row.batch, row.head, row.query, j) != 0;
  return kept ? kept_share_ : A{0};
}

}  // namespace

tl::expected<void, CallError> TiledBackward(const CallView& call, const TiledOptions& options) {
  if (!call.lse) {
    return tl::unexpected(CallError{ATTEST_INVALID_ARGUMENT, "lse is missing in a backward call"});
  }
  WithFloatType(call.dtype, [&](auto zero) {
    ForEachPart(call.batch * call.kv_heads, options.threads, [&](int64_t first, int64_t last) {
      BackwardRun<decltype(zero)>(call, options.tile).Run(first, last);
    });
  });
  return {};
}

}  // namespace attest
