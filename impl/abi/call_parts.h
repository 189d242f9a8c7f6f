// The parts that ParseCall is put together from: a call's tensors by role, its options by name, and
// the checks of a single tensor. For the files call_*.cc of this folder only.
#ifndef ATTEST_ABI_CALL_PARTS_H_
#define ATTEST_ABI_CALL_PARTS_H_

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "impl/abi/call_view.h"

namespace attest::call_parts {

// Far above any size that fits a machine, far below where adding positions could overflow.
constexpr int64_t kMaxPosition = int64_t{1} << 40;

using Error = std::optional<CallError>;  // nullopt = fine

template <typename... Args>
CallError Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {ATTEST_INVALID_ARGUMENT, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename... Args>
CallError Unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return {ATTEST_UNSUPPORTED, fmt::format(format, std::forward<Args>(args)...)};
}

// The tensors of a call by role; null = not given.
struct Arguments {
  const DLTensor *q = nullptr, *k = nullptr, *v = nullptr;
  const DLTensor *mask = nullptr, *bias = nullptr, *block_mask = nullptr;
  const DLTensor *key_lengths = nullptr, *query_lengths = nullptr, *prefix_lengths = nullptr;
  const DLTensor *cu_key_lengths = nullptr, *cu_query_lengths = nullptr;
  const DLTensor *diagonal_offset = nullptr, *document_ids = nullptr, *key_document_ids = nullptr;
  const DLTensor *sinks = nullptr, *alibi_slopes = nullptr, *dropout_mask = nullptr;
  const DLTensor *past_k = nullptr, *past_v = nullptr, *page_table = nullptr, *ring_start = nullptr;
  const DLTensor *q_scale = nullptr, *k_scale = nullptr, *v_scale = nullptr;
  const DLTensor *out = nullptr, *lse = nullptr, *weights = nullptr, *scores = nullptr;
  const DLTensor *present_k = nullptr, *present_v = nullptr;
  const DLTensor *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  const DLTensor *dbias = nullptr, *dsink = nullptr;
};

// The options of a call; nullopt = not given. Only their kinds are checked.
struct Options {
  std::optional<double> scale, softcap, dropout;
  std::optional<int64_t> causal, window_left, window_right, block_q, block_k, scores, fp8;
};

// Sort the call's parts by role and by option. Unknown ones are unsupported; repeated ones, and
// missing ones that every call has, are invalid.
Error CollectArguments(const attest_call& call, Arguments& arguments);
Error CollectOptions(const attest_call& call, Options& options);

// The element type of a tensor. 8-bit unsigned is kBool here, whatever it stands for.
std::optional<DType> DTypeOf(const DLDataType& type);

// Everything but the extents' meaning: device, rank, type, strides, pointer.
Error CheckStorage(const char* name, const DLTensor& tensor, int min_rank, int max_rank,
                   DType dtype);

// Views a tensor whose axes are the leading ones of `shape`; trailing extents of `shape` are
// then 1.
Error Bind(const char* name, const DLTensor& tensor, int rank, const Shape4& shape, DType dtype,
           TensorView& view);
// The same of a tensor that may be null.
Error BindOptional(const char* name, const DLTensor* tensor, int rank, const Shape4& shape,
                   DType dtype, std::optional<TensorView>& target);
// Views a tensor of rank `min_rank` to 4 that broadcasts from the right to `shape`.
Error BindBroadcast(const char* name, const DLTensor& tensor, int min_rank, const Shape4& shape,
                    DType dtype, TensorView& view);

// Copies an int64 tensor [rows, columns] (of rank 1: `columns` is 1) row by row; its entries must
// lie in low .. high.
Error ReadIntegers(const char* name, const DLTensor& tensor, int rank, int64_t rows,
                   int64_t columns, int64_t low, int64_t high, std::vector<int64_t>& target);
// The same of one entry a batch item in a tensor that may be null.
Error ReadPerItem(const char* name, const DLTensor* tensor, int64_t batch, int64_t low,
                  int64_t high, std::optional<std::vector<int64_t>>& target);
// Copies a tensor [count] of f32 or f64.
Error ReadFloats(const char* name, const DLTensor& tensor, int64_t count, DType dtype,
                 std::vector<double>& target);

// Views a tensor [rows, heads, dim] of packed sequences as [1, heads, rows, dim].
Error BindPacked(const char* name, const DLTensor& tensor, int64_t rows, int64_t heads, int64_t dim,
                 DType dtype, TensorView& view);

// Sets element types, all sizes, q, k and v and where they are stored, key and query lengths, and
// the scales of 8-bit inputs. (call_storage.cc)
Error ReadStorage(const Arguments& arguments, const Options& options, CallView& view);

}  // namespace attest::call_parts

#endif  // ATTEST_ABI_CALL_PARTS_H_
