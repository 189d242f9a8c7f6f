// What a C++ kernel sees of a call: ParseCall checks an attest_call from end to end and turns it
// into a CallView of sizes, options and strided tensors, so that the kernel's own code starts where
// the arithmetic starts. kernel_table.h builds the plug-in's table around it. A view borrows the
// call's memory and converts nothing; input_rows.h reads q, k and v as numbers.
#ifndef ATTEST_ABI_CALL_VIEW_H_
#define ATTEST_ABI_CALL_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "impl/abi/attest/kernel.h"
#include "impl/attention/array.h"
#include "impl/attention/dtype.h"

namespace attest {

// Why a call is not computed: a status other than ATTEST_OK and one line for the user.
struct CallError {
  attest_status status = ATTEST_FAILED;
  std::string message;
};

// A four-dimensional strided tensor, element (0,0,0,0) at `data`. A broadcast axis has its full
// extent and stride 0. Where the tensor has no elements `data` may be null and Pointer must not be
// called.
struct TensorView {
  void* data = nullptr;
  Shape4 shape{0, 0, 0, 0};
  Shape4 strides{0, 0, 0, 0};  // in elements, never negative

  template <typename T>
  T* Pointer(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return static_cast<T*>(data) + a * strides[0] + b * strides[1] + c * strides[2] +
           d * strides[3];
  }
  template <typename T>
  T& At(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return *Pointer<T>(a, b, c, d);
  }
};

// The tiles that a block mask hides.
struct BlockMaskView {
  int64_t block_q = 1, block_k = 1;
  TensorView bits;  // uint8_t, as [batch, q_heads, tiles of rows, tiles of keys]

  bool Attends(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return bits.At<uint8_t>(b, h, i / block_q, j / block_k) != 0;
  }
};

// The number of each query and key.
struct DocumentsView {
  std::vector<int64_t> query;  // [batch, q_len]
  std::vector<int64_t> key;    // [batch, kv_len]
};

struct DropoutView {
  double probability = 0;  // in [0, 1)
  TensorView keep;         // uint8_t, [batch, q_heads, q_len, kv_len]
};

// Where keys and values lie, at most one of these. Kernels need only KeyAt, ValueAt and the like of
// CallView.
struct StorageView {
  bool has_past = false;  // past_k and past_v are there, perhaps of no keys
  int64_t past = 0;       // so many first keys lie in them
  TensorView past_k, past_v;
  int64_t page_size = 0, pages_per_item = 0;  // 0: no pages
  std::vector<int64_t> page_table;            // [batch, pages_per_item]
  std::vector<int64_t> ring_start;            // [batch]; empty: no ring
  std::vector<int64_t> cu_query, cu_key;      // [batch + 1]; empty: not packed
};

// What a backward call has beside its forward call. All of dtype; never of paged, ring or past keys, nor of
// fp8 inputs. Packed where out, q, k and v are: kernels need DoutAt, DqAt, DkAt and DvAt of CallView.
struct GradientsView {
  TensorView dout;        // [batch, q_heads, q_len, value_dim]
  TensorView dq, dk, dv;  // shaped as q, k and v
  // Of bias_dtype, with the bias's own extents, those of 1 included: element (0, 0, 0, 0) of such an axis
  // gathers all that it broadcasts to. nullopt where it is not asked for.
  std::optional<TensorView> dbias;
  std::optional<TensorView> dsink;  // [q_heads, 1, 1, 1], double for f64, else float
};

// The elements of one row of a tensor; `data` is null where the tensor has none.
template <typename T>
struct RowSpan {
  T* data = nullptr;
  int64_t stride = 1;

  T& operator[](int64_t d) const { return data[d * stride]; }
};

// A checked call. Sizes are below 2^40, so that sums of a few positions cannot overflow.
//
// In packed calls q_len and kv_len are those of the longest item, and query_lengths and key_lengths
// come from the cumulative lengths. In paged calls kv_len is the largest key length, or more where
// another tensor has more keys (a mask, bias, block mask or dropout mask, key documents, an output).
struct CallView {
  DType dtype = DType::kF32;  // of q, k, v, bias, out, weights and scores
  std::optional<DType> fp8;   // then q, k and v are of this format, times these scales
  double q_scale = 1, k_scale = 1, v_scale = 1;  // positive and finite; 1 where not given
  DType bias_dtype = DType::kF32;                // dtype or f32
  int64_t batch = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;  // divides q_heads; 0 only where q_heads is 0
  int64_t q_len = 0;
  int64_t kv_len = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;

  double scale = 1;
  bool causal = false;
  std::optional<int64_t> window_left;   // 0 .. 2^42; nullopt = open
  std::optional<int64_t> window_right;  // likewise

  // [batch, heads, len, dim]; packed [1, heads, all rows, dim]; pages [pages, heads, page_size, dim].
  // Of k and v those that are not in the past.
  TensorView q, k, v;
  std::optional<TensorView> mask;                     // uint8_t, as [batch, q_heads, q_len, kv_len]
  std::optional<TensorView> bias;                     // of bias_dtype, the same shape
  std::optional<std::vector<int64_t>> key_lengths;    // [batch], each in 0 .. kv_len
  std::optional<std::vector<int64_t>> query_lengths;  // [batch], each in 0 .. q_len
  std::optional<std::vector<int64_t>> prefix_lengths;   // [batch], each in 0 .. kv_len
  std::optional<std::vector<int64_t>> diagonal_offset;  // [batch], each within +-2^40
  std::optional<DocumentsView> documents;
  std::optional<BlockMaskView> block_mask;
  double softcap = 0;                               // 0 = none
  std::optional<std::vector<double>> alibi_slopes;  // [q_heads]
  std::optional<std::vector<double>> sinks;         // [q_heads]
  std::optional<DropoutView> dropout;
  StorageView storage;

  TensorView out;                     // of dtype, shaped as q
  std::optional<TensorView> lse;      // [batch, q_heads, q_len, 1], double for f64, else float
  std::optional<TensorView> weights;  // of dtype, [batch, q_heads, q_len, kv_len]
  std::optional<TensorView> scores;   // likewise
  int score_mode = 0;                 // ATTEST_OPTION_SCORES
  std::optional<TensorView> present_k, present_v;  // of dtype, [batch, kv_heads, kv_len, dim]

  std::optional<GradientsView> gradients;  // of backward calls: out and lse are then inputs

  // Rows, wherever the storage has put them: i below StoredRows(b), j below StoredKeys(b). T is the
  // storage type (uint8_t for fp8).
  template <typename T>
  RowSpan<const T> QueryAt(int64_t b, int64_t h, int64_t i) const {
    return RowOf<const T>(q, b, h, i);
  }
  template <typename T>
  RowSpan<const T> KeyAt(int64_t b, int64_t kv_head, int64_t j) const {
    return StoredAt<T>(k, storage.past_k, b, kv_head, j);
  }
  template <typename T>
  RowSpan<const T> ValueAt(int64_t b, int64_t kv_head, int64_t j) const {
    return StoredAt<T>(v, storage.past_v, b, kv_head, j);
  }
  template <typename T>
  RowSpan<T> OutAt(int64_t b, int64_t h, int64_t i) const {
    return RowOf<T>(out, b, h, i);
  }
  template <typename T>
  T& LseAt(int64_t b, int64_t h, int64_t i) const {
    return RowOf<T>(*lse, b, h, i)[0];
  }

  // Rows of the gradients, likewise; of backward calls alone.
  template <typename T>
  RowSpan<const T> DoutAt(int64_t b, int64_t h, int64_t i) const {
    return RowOf<const T>(gradients->dout, b, h, i);
  }
  template <typename T>
  RowSpan<T> DqAt(int64_t b, int64_t h, int64_t i) const {
    return RowOf<T>(gradients->dq, b, h, i);
  }
  template <typename T>
  RowSpan<T> DkAt(int64_t b, int64_t kv_head, int64_t j) const {
    return KeyRowOf<T>(gradients->dk, b, kv_head, j);
  }
  template <typename T>
  RowSpan<T> DvAt(int64_t b, int64_t kv_head, int64_t j) const {
    return KeyRowOf<T>(gradients->dv, b, kv_head, j);
  }

  bool is_packed() const { return !storage.cu_query.empty(); }
  bool is_paged() const { return storage.page_size != 0; }
  // Rows of batch item `b` that there are: packed sequences hold no padding.
  int64_t StoredRows(int64_t b) const { return is_packed() ? QueryLength(b) : q_len; }
  // Keys of batch item `b` that can be read. Those behind are hidden.
  int64_t StoredKeys(int64_t b) const { return is_packed() || is_paged() ? KeyLength(b) : kv_len; }
  // Rows at or beyond it are padding of batch item `b`.
  int64_t QueryLength(int64_t b) const {
    return query_lengths ? (*query_lengths)[static_cast<size_t>(b)] : q_len;
  }
  // The key/value head that query head `h` reads.
  int64_t KvHead(int64_t h) const { return h / (q_heads / kv_heads); }
  // Keys at or beyond it are hidden from batch item `b`.
  int64_t KeyLength(int64_t b) const {
    return key_lengths ? (*key_lengths)[static_cast<size_t>(b)] : kv_len;
  }
  // Row i of batch item `b` stands at key i + DiagonalOffset(b).
  int64_t DiagonalOffset(int64_t b) const {
    return diagonal_offset ? (*diagonal_offset)[static_cast<size_t>(b)] : 0;
  }
  // Keys before it are not hidden by causality from batch item `b`.
  int64_t PrefixLength(int64_t b) const {
    return prefix_lengths ? (*prefix_lengths)[static_cast<size_t>(b)] : 0;
  }
  bool InOneDocument(int64_t b, int64_t i, int64_t j) const {
    return !documents || documents->query[static_cast<size_t>(b * q_len + i)] ==
                             documents->key[static_cast<size_t>(b * kv_len + j)];
  }

 private:
  template <typename T>
  static RowSpan<T> Span(const TensorView& view, int64_t a, int64_t head, int64_t position) {
    if (view.data == nullptr) return {};
    return {view.Pointer<T>(a, head, position, 0), view.strides[3]};
  }
  // Row i of a tensor that is packed as q is.
  template <typename T>
  RowSpan<T> RowOf(const TensorView& view, int64_t b, int64_t h, int64_t i) const {
    if (!is_packed()) return Span<T>(view, b, h, i);
    return Span<T>(view, 0, h, storage.cu_query[static_cast<size_t>(b)] + i);
  }
  // Row j of a tensor that is packed as k is, and plain otherwise.
  template <typename T>
  RowSpan<T> KeyRowOf(const TensorView& view, int64_t b, int64_t kv_head, int64_t j) const {
    if (!is_packed()) return Span<T>(view, b, kv_head, j);
    return Span<T>(view, 0, kv_head, storage.cu_key[static_cast<size_t>(b)] + j);
  }
  // Row j of k or v.
  template <typename T>
  RowSpan<const T> StoredAt(const TensorView& recent, const TensorView& past, int64_t b,
                            int64_t head, int64_t j) const {
    const auto item = static_cast<size_t>(b);
    if (j < storage.past) return Span<const T>(past, b, head, j);
    if (is_packed()) return Span<const T>(recent, 0, head, storage.cu_key[item] + j);
    if (is_paged()) {
      const auto entry = static_cast<size_t>(b * storage.pages_per_item + j / storage.page_size);
      return Span<const T>(recent, storage.page_table[entry], head, j % storage.page_size);
    }
    if (storage.ring_start.empty()) return Span<const T>(recent, b, head, j - storage.past);
    return Span<const T>(recent, b, head, (storage.ring_start[item] + j) % kv_len);
  }
};

// Checks everything that kernel.h says of a call. A role, option, device or negative stride that
// this glue does not know is ATTEST_UNSUPPORTED; shapes, types, lengths, storages or pointers that
// contradict one another are ATTEST_INVALID_ARGUMENT. Packed sequences go with no tensor whose shape
// has q_len or kv_len; pages with no present, and with no raw or capped scores of keys that no page
// holds. Gradients belong to backward calls, which have all of dout, dq, dk and dv; dbias and dsink may
// be left out. The view is valid as long as the call's tensors are.
enum class Pass { kForward, kBackward };
tl::expected<CallView, CallError> ParseCall(const attest_call& call, Pass pass = Pass::kForward);

}  // namespace attest

#endif  // ATTEST_ABI_CALL_VIEW_H_
