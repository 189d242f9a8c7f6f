// Attention as the layers here ask for it: what a row may see, where keys lie, and three ways to
// compute it. OnlineAttention goes over the visible pairs, a tile of keys at a time; DenseAttention
// over all pairs, for comparison of cost and result; AttentionBackward gives gradients.
// kernel_attention.h asks a kernel behind the plug-in interface instead.
#ifndef ATTEST_TRANSFORMER_ATTENTION_H_
#define ATTEST_TRANSFORMER_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "impl/transformer/faults.h"
#include "impl/transformer/matrix.h"

namespace attest::transformer {

// What rows may see of keys. Written once; every way of computing asks it.
struct Visibility {
  bool causal = false;
  int64_t window = 0;                       // keys that a row sees, its own included; 0 = all
  std::vector<int64_t> key_begin, key_end;  // [batch]: where there are keys and no padding
  std::vector<int64_t> offset;              // [batch]: row i stands at key i + offset
  int64_t q_len = 0, kv_len = 0;
  // [batch, q_len] and [batch, kv_len]: a row sees keys of its own number; empty: no numbers.
  std::vector<int64_t> query_documents, key_documents;
  Fault fault = Fault::kNone;

  bool operator()(int64_t b, int64_t i, int64_t j) const {
    const auto item = static_cast<size_t>(b);
    return IsKey(b, j) && IsCausal(i + offset[item], j) && IsInWindow(i + offset[item], j) &&
           InOneDocument(b, i, j);
  }

 private:
  bool IsKey(int64_t b, int64_t j) const {
    const auto item = static_cast<size_t>(fault == Fault::kPaddingOfItem0 ? 0 : b);
    if (fault == Fault::kPaddingVisible) return true;
    if (fault == Fault::kLeftPaddingVisible) return j < key_end[item];
    const bool is_key = key_begin[item] <= j && j < key_end[item];
    return is_key != (fault == Fault::kMaskInverted);
  }
  bool HasPadding() const {
    for (size_t b = 0; b < key_end.size(); ++b) {
      if (key_end[b] - key_begin[b] < kv_len) return true;
    }
    return false;
  }
  bool IsCausal(int64_t place, int64_t j) const {
    if (!causal) return true;
    switch (fault) {
      case Fault::kTriangleTransposed:
        return j >= place;
      case Fault::kDiagonalStrict:
        return j < place;
      case Fault::kDiagonalSlid:
        return j <= place + 1;
      case Fault::kCausalityDroppedBesidePadding:
        return j <= place || HasPadding();
      default:
        return j <= place;
    }
  }
  bool IsInWindow(int64_t place, int64_t j) const {
    return window == 0 || j > place - window - (fault == Fault::kWindowOneMore ? 1 : 0);
  }
  bool InOneDocument(int64_t b, int64_t i, int64_t j) const {
    return query_documents.empty() || query_documents[static_cast<size_t>(b * q_len + i)] ==
                                          key_documents[static_cast<size_t>(b * kv_len + j)];
  }
};

// Keys and values, a row each of kv_heads * head_dim, wherever they lie.
template <typename T>
struct KvRows {
  const T *k = nullptr, *v = nullptr;
  int64_t len = 0;                            // keys of an item, hidden ones included
  int64_t item_rows = 0;                      // rows from an item to the next, or slots of a ring
  int64_t page_size = 0, pages_per_item = 0;  // 0: no pages
  std::vector<int64_t> page_table;            // [batch, pages_per_item], -1 where there is none
  std::vector<int64_t> ring_start;            // [batch]: the slot of key 0; empty: no ring
  int64_t rows = 0;                           // that there are in all

  // The row of key j.
  int64_t Row(int64_t b, int64_t j) const {
    if (page_size != 0) {
      const auto page = page_table[static_cast<size_t>(b * pages_per_item + j / page_size)];
      return page * page_size + j % page_size;
    }
    if (ring_start.empty()) return b * item_rows + j;
    return b * item_rows + (ring_start[static_cast<size_t>(b)] + j) % item_rows;
  }
};

template <typename T>
struct AttentionTask {
  int64_t batch = 0, q_len = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  const Matrix<T>* q = nullptr;  // [batch * q_len, heads * head_dim]
  KvRows<T> kv;
  Visibility visible;
  double scale = 1;
  std::vector<double> slopes;         // [heads], of ALiBi; empty: none
  std::vector<int64_t> alibi_offset;  // [batch]: distances are |i + offset - j|

  const T* Query(int64_t b, int64_t h, int64_t i) const {
    return q->data() + (b * q_len + i) * heads * head_dim + h * head_dim;
  }
  // Where the head's components begin in row j of keys, values, or anything of their shape.
  int64_t KvIndex(int64_t b, int64_t h, int64_t j) const {
    return (kv.Row(b, j) * kv_heads + h / (heads / kv_heads)) * head_dim;
  }
  T Score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const T score = T(scale) * Dot(Query(b, h, i), kv.k + KvIndex(b, h, j), head_dim);
    if (slopes.empty()) return score;
    const int64_t distance = i + alibi_offset[static_cast<size_t>(b)] - j;
    return score - T(slopes[static_cast<size_t>(h)] *
                     static_cast<double>(distance < 0 ? -distance : distance));
  }
};

// Calls visit(b, h, i) for every row.
template <typename T, typename Visitor>
void ForEachRow(const AttentionTask<T>& task, Visitor&& visit) {
  for (int64_t b = 0; b < task.batch; ++b) {
    for (int64_t h = 0; h < task.heads; ++h) {
      for (int64_t i = 0; i < task.q_len; ++i) visit(b, h, i);
    }
  }
}

namespace internal {

// A row in progress: what it has summed of weights and values, relative to the largest score.
template <typename T>
struct OnlineRow {
  T max = T(0), sum = T(0);
  bool seen = false;
  std::vector<std::pair<int64_t, T>> tile;  // visible keys of this tile, with their scores

  void AddTile(const AttentionTask<T>& task, int64_t b, int64_t h, T* out) {
    using std::exp;
    if (tile.empty()) return;
    T larger = seen ? max : tile.front().second;
    for (const auto& [j, score] : tile) larger = larger < score ? score : larger;
    if (seen) {
      const T kept = exp(max - larger);
      sum = sum * kept;
      for (int64_t d = 0; d < task.head_dim; ++d) out[d] = out[d] * kept;
    }
    for (const auto& [j, score] : tile) {
      const T weight = exp(score - larger);
      sum = sum + weight;
      Accumulate(weight, task.kv.v + task.KvIndex(b, h, j), out, task.head_dim);
    }
    max = larger;
    seen = true;
  }
};

}  // namespace internal

// out [batch * q_len, heads * head_dim]. Rows that see no key are zero. Each row's bits depend on
// it, its visible keys, and on which of them share a tile.
template <typename T>
void OnlineAttention(const AttentionTask<T>& task, Matrix<T>& out, int64_t tile = 64) {
  out = Matrix<T>::Zero(task.batch * task.q_len, task.heads * task.head_dim);
  ForEachRow(task, [&](int64_t b, int64_t h, int64_t i) {
    T* const row = out.data() + (b * task.q_len + i) * out.cols() + h * task.head_dim;
    internal::OnlineRow<T> state;
    for (int64_t first = 0; first < task.kv.len; first += tile) {
      state.tile.clear();
      for (int64_t j = first; j < std::min(first + tile, task.kv.len); ++j) {
        if (task.visible(b, i, j)) state.tile.emplace_back(j, task.Score(b, h, i, j));
      }
      state.AddTile(task, b, h, row);
    }
    if (!state.seen) return;
    for (int64_t d = 0; d < task.head_dim; ++d) row[d] = row[d] / state.sum;
  });
}

// The softmax of one row over its visible keys, [kv len]; hidden keys and rows that see none have
// 0.
template <typename T>
std::vector<T> RowWeights(const AttentionTask<T>& task, int64_t b, int64_t h, int64_t i) {
  using std::exp;
  std::vector<T> scores(static_cast<size_t>(task.kv.len), T(0));
  bool seen = false;
  T max(0), sum(0);
  for (int64_t j = 0; j < task.kv.len; ++j) {
    T& score = scores[static_cast<size_t>(j)] = task.Score(b, h, i, j);
    if (!task.visible(b, i, j)) continue;
    max = !seen || max < score ? score : max;
    seen = true;
  }
  for (int64_t j = 0; j < task.kv.len; ++j) {
    T& weight = scores[static_cast<size_t>(j)];
    weight = task.visible(b, i, j) ? exp(weight - max) : T(0);
    sum = sum + weight;
  }
  for (T& weight : scores) weight = seen ? weight / sum : T(0);
  return scores;
}

// As OnlineAttention, with the whole plane of weights in memory, and every pair computed whether it
// is visible or not: as textbooks have it.
template <typename T>
void DenseAttention(const AttentionTask<T>& task, Matrix<T>& out) {
  out = Matrix<T>::Zero(task.batch * task.q_len, task.heads * task.head_dim);
  std::vector<std::vector<T>> plane;
  ForEachRow(task, [&](int64_t b, int64_t h, int64_t i) {
    plane.push_back(RowWeights(task, b, h, i));
    if (i + 1 < task.q_len) return;
    for (int64_t r = 0; r < task.q_len; ++r) {
      T* const row = out.data() + (b * task.q_len + r) * out.cols() + h * task.head_dim;
      for (int64_t j = 0; j < task.kv.len; ++j) {
        Accumulate(plane[static_cast<size_t>(r)][static_cast<size_t>(j)],
                   task.kv.v + task.KvIndex(b, h, j), row, task.head_dim);
      }
    }
    plane.clear();
  });
}

template <typename T>
struct AttentionGradients {
  Matrix<T> q, k, v;  // shaped as the task's, keys and values as [rows, kv_heads * head_dim]
};

template <typename T>
AttentionGradients<T> ZeroGradients(const AttentionTask<T>& task) {
  const int64_t kv_dim = task.kv_heads * task.head_dim;
  return {Matrix<T>::Zero(task.q->rows(), task.q->cols()), Matrix<T>::Zero(task.kv.rows, kv_dim),
          Matrix<T>::Zero(task.kv.rows, kv_dim)};
}

// Gradients from that of out. Hidden keys get exactly 0, and so do rows that see no key.
template <typename T>
AttentionGradients<T> AttentionBackward(const AttentionTask<T>& task, const Matrix<T>& dout) {
  const int64_t n = task.head_dim;
  AttentionGradients<T> d = ZeroGradients(task);
  ForEachRow(task, [&](int64_t b, int64_t h, int64_t i) {
    const std::vector<T> weights = RowWeights(task, b, h, i);
    const int64_t at = (b * task.q_len + i) * dout.cols() + h * n;
    const T* const dy = dout.data() + at;
    // The softmax's own gradient is weight * (gradient of the weight - their weighted mean).
    std::vector<T> dweights(weights.size(), T(0));
    T mean(0);
    for (int64_t j = 0; j < task.kv.len; ++j) {
      if (!task.visible(b, i, j)) continue;
      const auto key = static_cast<size_t>(j);
      dweights[key] = Dot(dy, task.kv.v + task.KvIndex(b, h, j), n);
      mean += weights[key] * dweights[key];
    }
    for (int64_t j = 0; j < task.kv.len; ++j) {
      if (!task.visible(b, i, j)) continue;
      const auto key = static_cast<size_t>(j);
      const int64_t kv = task.KvIndex(b, h, j);
      const T dscore = T(task.scale) * weights[key] * (dweights[key] - mean);
      Accumulate(dscore, task.kv.k + kv, d.q.data() + at, n);
      Accumulate(dscore, task.Query(b, h, i), d.k.data() + kv, n);
      Accumulate(weights[key], dy, d.v.data() + kv, n);
    }
  });
  return d;
}

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_ATTENTION_H_
