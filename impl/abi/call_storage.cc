// Where a call's q, k and v lie, and so how many rows and keys there are: plain tensors, past and
// new, pages, a ring, or packed sequences; and their element type.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "impl/abi/call_parts.h"

namespace attest::call_parts {
namespace {

struct NamedTensor {
  const char* name;
  const DLTensor* tensor;
};

// Tensors that come together or not at all.
Error CheckPair(const NamedTensor& a, const NamedTensor& b) {
  if ((a.tensor == nullptr) == (b.tensor == nullptr)) return std::nullopt;
  const bool a_is_missing = a.tensor == nullptr;
  return Invalid("{} is missing beside {}", a_is_missing ? a.name : b.name,
                 a_is_missing ? b.name : a.name);
}

Error CheckCompany(const Arguments& a) {
  for (const auto& error :
       {CheckPair({"past_k", a.past_k}, {"past_v", a.past_v}),
        CheckPair({"cu_query_lengths", a.cu_query_lengths}, {"cu_key_lengths", a.cu_key_lengths}),
        CheckPair({"document_ids", a.document_ids}, {"key_document_ids", a.key_document_ids})}) {
    if (error) return error;
  }
  const char* storage = nullptr;
  for (const auto& [name, tensor] :
       {NamedTensor{"past_k", a.past_k}, NamedTensor{"page_table", a.page_table},
        NamedTensor{"ring_start", a.ring_start}, NamedTensor{"cu_key_lengths", a.cu_key_lengths}}) {
    if (tensor == nullptr) continue;
    if (storage != nullptr) return Invalid("{} does not go with {}", name, storage);
    storage = name;
  }
  if (a.page_table == nullptr && a.cu_key_lengths == nullptr) return std::nullopt;
  for (const auto& [name, tensor, only_packed] :
       {std::tuple{"present_k", a.present_k, false}, std::tuple{"present_v", a.present_v, false},
        std::tuple{"weights", a.weights, true}, std::tuple{"scores", a.scores, true},
        std::tuple{"key_lengths", a.key_lengths, true},
        std::tuple{"query_lengths", a.query_lengths, true}}) {
    if (tensor == nullptr || (only_packed && a.cu_key_lengths == nullptr)) continue;
    return Invalid("{} does not go with {}", name, storage);
  }
  return std::nullopt;
}

// The type of out, and of q, k and v where those are not 8-bit.
Error ReadTypes(const Arguments& arguments, const Options& options, CallView& view) {
  const bool is_fp8 = options.fp8.has_value();
  if (is_fp8 && *options.fp8 != 1 && *options.fp8 != 2) {
    return Invalid("option fp8 = {} is neither 1 nor 2", *options.fp8);
  }
  const char* name = is_fp8 ? "out" : "q";
  const std::optional<DType> dtype = DTypeOf((is_fp8 ? arguments.out : arguments.q)->dtype);
  if (!dtype || *dtype == DType::kBool || *dtype == DType::kI64) {
    return Unsupported("{} has an element type that is not offered", name);
  }
  view.dtype = *dtype;
  if (is_fp8) view.fp8 = *options.fp8 == 1 ? DType::kE4M3 : DType::kE5M2;
  return std::nullopt;
}

Error ReadScales(const Arguments& arguments, CallView& view) {
  for (const auto& [name, tensor, scale] :
       {std::tuple{"q_scale", arguments.q_scale, &view.q_scale},
        std::tuple{"k_scale", arguments.k_scale, &view.k_scale},
        std::tuple{"v_scale", arguments.v_scale, &view.v_scale}}) {
    if (tensor == nullptr) continue;
    if (!view.fp8) return Invalid("{} comes without option fp8", name);
    std::vector<double> values;
    if (auto error = ReadFloats(name, *tensor, 1, DType::kF32, values)) return error;
    *scale = values[0];
    if (!(*scale > 0) || !std::isfinite(*scale)) {
      return Invalid("{} = {} is not a positive number", name, *scale);
    }
  }
  return std::nullopt;
}

// The type in which q, k and v are stored, as DTypeOf has it.
DType StoredType(const CallView& view) {
  return view.fp8 ? DType::kBool : view.dtype;
}

// q, k and v in the ranks that the storage asks for.
Error CheckInputs(const Arguments& arguments, const CallView& view) {
  const int rank = arguments.cu_key_lengths != nullptr ? 3 : 4;
  for (const auto& [name, tensor] : {NamedTensor{"q", arguments.q}, NamedTensor{"k", arguments.k},
                                     NamedTensor{"v", arguments.v}}) {
    if (auto error = CheckStorage(name, *tensor, rank, rank, StoredType(view))) return error;
  }
  return std::nullopt;
}

Error SetHeads(int64_t q_heads, int64_t kv_heads, CallView& view) {
  view.q_heads = q_heads;
  view.kv_heads = kv_heads;
  if (kv_heads == 0 ? q_heads != 0 : q_heads % kv_heads != 0) {
    return Invalid("kv_heads = {} does not divide q_heads = {}", kv_heads, q_heads);
  }
  return std::nullopt;
}

// The extent of an unchecked tensor's axis; 0 where there is no such.
int64_t ExtentOf(const DLTensor* tensor, int rank, int axis) {
  if (tensor == nullptr || tensor->ndim != rank || tensor->shape == nullptr) return 0;
  return std::clamp<int64_t>(tensor->shape[axis], 0, kMaxPosition);
}

// The same of a mask or bias, from the right; 0 where it broadcasts.
int64_t BroadcastExtentOf(const DLTensor* tensor, int from_right) {
  if (tensor == nullptr || tensor->ndim < 2) return 0;
  const int64_t extent = ExtentOf(tensor, tensor->ndim, tensor->ndim - from_right);
  return extent == 1 ? 0 : extent;
}

// The least length that has so many tiles.
int64_t LengthOfTiles(int64_t tiles, const std::optional<int64_t>& block) {
  if (tiles == 0 || !block || *block < 1 || *block > kMaxPosition / tiles) return 0;
  return (tiles - 1) * *block + 1;
}

// q_len and kv_len of a packed or paged call: no tensor need say them, but where one has more rows
// or keys than the longest item, it is right.
int64_t MostRows(const Arguments& a, const Options& options, int64_t longest) {
  return std::max({longest, BroadcastExtentOf(a.mask, 2), BroadcastExtentOf(a.bias, 2),
                   ExtentOf(a.dropout_mask, 4, 2), ExtentOf(a.document_ids, 2, 1),
                   LengthOfTiles(ExtentOf(a.block_mask, 4, 2), options.block_q)});
}
int64_t MostKeys(const Arguments& a, const Options& options, int64_t longest) {
  return std::max({longest, BroadcastExtentOf(a.mask, 1), BroadcastExtentOf(a.bias, 1),
                   ExtentOf(a.dropout_mask, 4, 3), ExtentOf(a.key_document_ids, 2, 1),
                   ExtentOf(a.weights, 4, 3), ExtentOf(a.scores, 4, 3),
                   LengthOfTiles(ExtentOf(a.block_mask, 4, 3), options.block_k)});
}

int64_t LongestOf(const std::vector<int64_t>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

// Plain tensors, with what is in the past, and rings.
Error ReadPlain(const Arguments& arguments, CallView& view) {
  const DType type = StoredType(view);
  StorageView& storage = view.storage;
  if (arguments.past_k != nullptr) {
    if (auto error = CheckStorage("past_k", *arguments.past_k, 4, 4, type)) return error;
    storage.has_past = true;
    storage.past = arguments.past_k->shape[2];
  }
  const int64_t recent = arguments.k->shape[2];
  view.kv_len = storage.past + recent;
  const Shape4 k_shape{view.batch, view.kv_heads, recent, view.head_dim};
  const Shape4 v_shape{view.batch, view.kv_heads, recent, view.value_dim};
  if (auto error = Bind("k", *arguments.k, 4, k_shape, type, view.k)) return error;
  if (auto error = Bind("v", *arguments.v, 4, v_shape, type, view.v)) return error;
  if (arguments.past_k != nullptr) {
    const Shape4 past_k{view.batch, view.kv_heads, storage.past, view.head_dim};
    const Shape4 past_v{view.batch, view.kv_heads, storage.past, view.value_dim};
    if (auto error = Bind("past_k", *arguments.past_k, 4, past_k, type, storage.past_k)) {
      return error;
    }
    if (auto error = Bind("past_v", *arguments.past_v, 4, past_v, type, storage.past_v)) {
      return error;
    }
  }
  if (arguments.ring_start != nullptr) {
    const int64_t last_slot = std::max<int64_t>(view.kv_len - 1, 0);
    if (auto error = ReadIntegers("ring_start", *arguments.ring_start, 1, view.batch, 1, 0,
                                  last_slot, storage.ring_start)) {
      return error;
    }
  }
  return ReadPerItem("key_lengths", arguments.key_lengths, view.batch, 0, view.kv_len,
                     view.key_lengths);
}

// Each page that holds keys must exist, and no entry behind them may name one.
Error CheckPageTable(const CallView& view) {
  const StorageView& storage = view.storage;
  for (int64_t b = 0; b < view.batch; ++b) {
    const int64_t used = (view.KeyLength(b) + storage.page_size - 1) / storage.page_size;
    for (int64_t n = 0; n < storage.pages_per_item; ++n) {
      const int64_t page = storage.page_table[static_cast<size_t>(b * storage.pages_per_item + n)];
      if ((page >= 0) == (n < used)) continue;
      return Invalid("page_table[{}, {}] = {} though {} pages hold the item's {} keys", b, n, page,
                     used, view.KeyLength(b));
    }
  }
  return std::nullopt;
}

Error ReadPages(const Arguments& arguments, const Options& options, CallView& view) {
  const DType type = StoredType(view);
  StorageView& storage = view.storage;
  const int64_t pages = arguments.k->shape[0];
  storage.page_size = arguments.k->shape[2];
  if (storage.page_size == 0) return Invalid("k has pages of no keys");
  const Shape4 k_shape{pages, view.kv_heads, storage.page_size, view.head_dim};
  const Shape4 v_shape{pages, view.kv_heads, storage.page_size, view.value_dim};
  if (auto error = Bind("k", *arguments.k, 4, k_shape, type, view.k)) return error;
  if (auto error = Bind("v", *arguments.v, 4, v_shape, type, view.v)) return error;
  const DLTensor& table = *arguments.page_table;
  if (auto error = CheckStorage("page_table", table, 2, 2, DType::kI64)) return error;
  storage.pages_per_item = table.shape[1];
  if (auto error = ReadIntegers("page_table", table, 2, view.batch, storage.pages_per_item, -1,
                                pages - 1, storage.page_table)) {
    return error;
  }
  if (arguments.key_lengths == nullptr) return Invalid("key_lengths is missing beside page_table");
  const int64_t capacity = storage.pages_per_item > kMaxPosition / storage.page_size
                               ? kMaxPosition
                               : storage.pages_per_item * storage.page_size;
  if (auto error = ReadPerItem("key_lengths", arguments.key_lengths, view.batch, 0, capacity,
                               view.key_lengths)) {
    return error;
  }
  view.kv_len = MostKeys(arguments, options, LongestOf(*view.key_lengths));
  return CheckPageTable(view);
}

// [batch + 1] cumulative lengths from 0 to `total`, and the lengths they make.
Error ReadCumulative(const char* name, const DLTensor& tensor, int64_t total,
                     std::vector<int64_t>& cumulative, std::vector<int64_t>& lengths) {
  if (auto error = CheckStorage(name, tensor, 1, 1, DType::kI64)) return error;
  if (tensor.shape[0] < 1) return Invalid("{} is empty; it starts with 0", name);
  if (auto error = ReadIntegers(name, tensor, 1, tensor.shape[0], 1, 0, total, cumulative)) {
    return error;
  }
  if (cumulative.front() != 0 || cumulative.back() != total) {
    return Invalid("{} goes from {} to {}, expected 0 to {}", name, cumulative.front(),
                   cumulative.back(), total);
  }
  for (size_t b = 1; b < cumulative.size(); ++b) {
    if (cumulative[b] < cumulative[b - 1]) return Invalid("{}[{}] falls", name, b);
    lengths.push_back(cumulative[b] - cumulative[b - 1]);
  }
  return std::nullopt;
}

Error ReadPacked(const Arguments& arguments, const Options& options, CallView& view) {
  const DType type = StoredType(view);
  StorageView& storage = view.storage;
  const DLTensor &q = *arguments.q, &k = *arguments.k, &v = *arguments.v;
  if (auto error = SetHeads(q.shape[1], k.shape[1], view)) return error;
  view.head_dim = q.shape[2];
  view.value_dim = v.shape[2];
  const int64_t rows = q.shape[0], keys = k.shape[0];
  if (auto error = BindPacked("q", q, rows, view.q_heads, view.head_dim, type, view.q)) {
    return error;
  }
  if (auto error = BindPacked("k", k, keys, view.kv_heads, view.head_dim, type, view.k)) {
    return error;
  }
  if (auto error = BindPacked("v", v, keys, view.kv_heads, view.value_dim, type, view.v)) {
    return error;
  }
  if (auto error = ReadCumulative("cu_query_lengths", *arguments.cu_query_lengths, rows,
                                  storage.cu_query, view.query_lengths.emplace())) {
    return error;
  }
  if (auto error = ReadCumulative("cu_key_lengths", *arguments.cu_key_lengths, keys, storage.cu_key,
                                  view.key_lengths.emplace())) {
    return error;
  }
  if (storage.cu_query.size() != storage.cu_key.size()) {
    return Invalid("cu_query_lengths and cu_key_lengths are of {} and {} entries",
                   storage.cu_query.size(), storage.cu_key.size());
  }
  view.batch = static_cast<int64_t>(view.query_lengths->size());
  view.q_len = MostRows(arguments, options, LongestOf(*view.query_lengths));
  view.kv_len = MostKeys(arguments, options, LongestOf(*view.key_lengths));
  return std::nullopt;
}

}  // namespace

Error BindPacked(const char* name, const DLTensor& tensor, int64_t rows, int64_t heads, int64_t dim,
                 DType dtype, TensorView& view) {
  if (auto error = Bind(name, tensor, 3, {rows, heads, dim, 1}, dtype, view)) return error;
  view.shape = {1, heads, rows, dim};
  view.strides = {0, view.strides[1], view.strides[0], view.strides[2]};
  return std::nullopt;
}

Error ReadStorage(const Arguments& arguments, const Options& options, CallView& view) {
  if (auto error = CheckCompany(arguments)) return error;
  if (auto error = ReadTypes(arguments, options, view)) return error;
  if (auto error = ReadScales(arguments, view)) return error;
  if (auto error = CheckInputs(arguments, view)) return error;
  if (arguments.cu_key_lengths != nullptr) return ReadPacked(arguments, options, view);
  const DLTensor& q = *arguments.q;
  view.batch = q.shape[0];
  view.q_len = q.shape[2];
  view.head_dim = q.shape[3];
  view.value_dim = arguments.v->shape[3];
  if (auto error = SetHeads(q.shape[1], arguments.k->shape[1], view)) return error;
  const Shape4 q_shape{view.batch, view.q_heads, view.q_len, view.head_dim};
  if (auto error = Bind("q", q, 4, q_shape, StoredType(view), view.q)) return error;
  const Error error = arguments.page_table != nullptr ? ReadPages(arguments, options, view)
                                                      : ReadPlain(arguments, view);
  if (error) return error;
  return ReadPerItem("query_lengths", arguments.query_lengths, view.batch, 0, view.q_len,
                     view.query_lengths);
}

}  // namespace attest::call_parts
