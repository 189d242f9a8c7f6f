#include "impl/tiled/backward.h"

#include <algorithm>
#include <vector>

#include "impl/abi/row_threads.h"
#include "impl/tiled/backward_pair.h"
#include "impl/tiled/bias_gradient.h"

namespace attest {
namespace {

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

// row[d] times `factor` is written to component d of `to`.
template <typename T, typename A>
void WriteRow(const RowSpan<T>& to, const A* row, int64_t size, A factor) {
  for (int64_t d = 0; d < size; ++d) to[d] = static_cast<T>(row[d] * factor);
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

  const CallView& call_;
  const InputRows<T> rows_;
  const int64_t tile_, group_;  // keys a tile; query heads a kv head
  const A scale_;

  BackwardRow<T> row_;                  // the one at hand
  RowBuffer<A> query_sums_;             // [rows of the group, head_dim]: dq, not yet scaled
  RowBuffer<A> keys_, values_;          // of the tile
  RowBuffer<A> key_sums_, value_sums_;  // dk, not yet scaled, and dv
};

template <typename T>
BackwardRun<T>::BackwardRun(const CallView& call, int64_t tile)
    : call_(call),
      rows_(call),
      tile_(std::clamp<int64_t>(call.kv_len, 1, tile)),
      group_(call.kv_heads == 0 ? 0 : call.q_heads / call.kv_heads),
      scale_(static_cast<A>(call.scale)),
      row_(call),
      query_sums_(group_ * call.q_len, call.head_dim),
      keys_(tile_, call.head_dim),
      values_(tile_, call.value_dim),
      key_sums_(tile_, call.head_dim),
      value_sums_(tile_, call.value_dim) {}

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
  const int64_t keys = call_.StoredKeys(b);
  for (int64_t j = 0; j < keys; j += tile_) RunTile(b, kv_head, j, std::min(tile_, keys - j));
  for (int64_t g = 0; g < group_; ++g) {
    for (int64_t i = 0; i < call_.StoredRows(b); ++i) {
      WriteRow(call_.template DqAt<T>(b, kv_head * group_ + g, i),
               query_sums_.Row(g * call_.q_len + i), call_.head_dim, scale_);
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
    WriteRow(call_.template DkAt<T>(b, kv_head, first + n), key_sums_.Row(n), call_.head_dim,
             scale_);
    WriteRow(call_.template DvAt<T>(b, kv_head, first + n), value_sums_.Row(n), call_.value_dim,
             A{1});
  }
}

// One row's part in one tile: steps 1 and 2 of the header.
template <typename T>
void BackwardRun<T>::AddRow(const Row& row, int64_t first, int64_t keys) {
  KeySpan range = RangeOfRow(call_, row.batch, row.query);
  range = {std::max(range.first, first), std::min(range.last, first + keys)};
  if (range.empty()) return;
  row_.Start(row.batch, row.head, row.query);
  for (int64_t j = range.first; j < range.last; ++j) {
    if (!row_.Sees(j)) continue;
    const int64_t n = j - first;
    const auto pair = row_.With(j, keys_.Row(n), values_.Row(n));
    const A dscore = pair.dlogit * pair.slope;
    AddScaled(value_sums_.Row(n), row_.dout(), pair.weight * pair.kept, call_.value_dim);
    AddScaled(key_sums_.Row(n), row_.query(), dscore, call_.head_dim);
    AddScaled(query_sums_.Row(row.place), keys_.Row(n), dscore, call_.head_dim);
  }
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
  WriteBiasAndSinkGradients(call, options.threads);
  return {};
}

}  // namespace attest
