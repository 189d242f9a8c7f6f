#include "impl/abi/call_view.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "impl/abi/call_parts.h"

namespace attest {
namespace {

using call_parts::Arguments;
using call_parts::BindBroadcast;
using call_parts::BindOptional;
using call_parts::Error;
using call_parts::Invalid;
using call_parts::kMaxPosition;
using call_parts::Options;
using call_parts::ReadIntegers;
using call_parts::ReadPerItem;

// With positions and offsets of a few kMaxPosition a wider window hides nothing: it may be cut to
// this.
constexpr int64_t kMaxWindow = int64_t{1} << 42;

Error ReadWindowSide(const char* name, const std::optional<int64_t>& value,
                     std::optional<int64_t>& side) {
  if (!value) return std::nullopt;
  if (*value < 0) {
    return Invalid("{} = {} is negative; leave it out for an open side", name, *value);
  }
  side = std::min(*value, kMaxWindow);
  return std::nullopt;
}

// An option that comes with one tensor and not without it.
Error CheckPair(const char* option_name, bool has_option, const char* name,
                const DLTensor* tensor) {
  if (has_option == (tensor != nullptr)) return std::nullopt;
  return has_option ? Invalid("{} is missing beside option {}", name, option_name)
                    : Invalid("option {} is missing beside {}", option_name, name);
}

Error CheckPairs(const Options& options, const Arguments& a) {
  for (const auto& error :
       {CheckPair("block_q", options.block_q.has_value(), "block_mask", a.block_mask),
        CheckPair("block_k", options.block_k.has_value(), "block_mask", a.block_mask),
        CheckPair("dropout", options.dropout.has_value(), "dropout_mask", a.dropout_mask),
        CheckPair("scores", options.scores.has_value(), "scores", a.scores)}) {
    if (error) return error;
  }
  return std::nullopt;
}

Error ReadScalars(const Options& options, CallView& view) {
  view.scale = *options.scale;
  if (options.causal.value_or(0) != 0 && *options.causal != 1) {
    return Invalid("option causal = {} is neither 0 nor 1", *options.causal);
  }
  view.causal = options.causal.value_or(0) == 1;
  if (auto error = ReadWindowSide("window_left", options.window_left, view.window_left)) {
    return error;
  }
  if (auto error = ReadWindowSide("window_right", options.window_right, view.window_right)) {
    return error;
  }
  view.softcap = options.softcap.value_or(0);
  if (!(view.softcap >= 0) || !std::isfinite(view.softcap)) {
    return Invalid("option softcap = {} is not a finite number of at least 0", view.softcap);
  }
  view.score_mode = static_cast<int>(std::clamp<int64_t>(options.scores.value_or(0), -1, 4));
  if (view.score_mode < 0 || view.score_mode > 3) {
    return Invalid("option scores = {} is outside 0..3", *options.scores);
  }
  return std::nullopt;
}

Error BindMasks(const Arguments& arguments, CallView& view) {
  const Shape4 plane{view.batch, view.q_heads, view.q_len, view.kv_len};
  if (arguments.mask != nullptr) {
    if (auto error =
            BindBroadcast("mask", *arguments.mask, 2, plane, DType::kBool, view.mask.emplace())) {
      return error;
    }
  }
  if (arguments.bias == nullptr) return std::nullopt;
  const bool is_f32 = call_parts::DTypeOf(arguments.bias->dtype) == DType::kF32;
  view.bias_dtype = is_f32 ? DType::kF32 : view.dtype;
  return BindBroadcast("bias", *arguments.bias, 2, plane, view.bias_dtype, view.bias.emplace());
}

Error BindBlockMask(const Arguments& arguments, const Options& options, CallView& view) {
  if (arguments.block_mask == nullptr) return std::nullopt;
  const DLTensor& tensor = *arguments.block_mask;
  BlockMaskView& mask = view.block_mask.emplace();
  for (const auto& [name, value, target] :
       {std::tuple{"block_q", *options.block_q, &mask.block_q},
        std::tuple{"block_k", *options.block_k, &mask.block_k}}) {
    if (value < 1) return Invalid("option {} = {} is not at least 1", name, value);
    *target = std::min(value, kMaxPosition);  // one tile is one tile
  }
  const auto tiles = [](int64_t length, int64_t block) { return (length + block - 1) / block; };
  const Shape4 shape{view.batch, view.q_heads, tiles(view.q_len, mask.block_q),
                     tiles(view.kv_len, mask.block_k)};
  if (auto error = BindBroadcast("block_mask", tensor, 4, shape, DType::kBool, mask.bits)) {
    return error;
  }
  for (const int axis : {2, 3}) {
    const int64_t expected = shape[static_cast<size_t>(axis)];
    if (tensor.shape[axis] != expected) {
      return Invalid("block_mask has {} tiles along axis {}, expected {}", tensor.shape[axis], axis,
                     expected);
    }
  }
  return std::nullopt;
}

Error BindDropout(const Arguments& arguments, const Options& options, CallView& view) {
  if (arguments.dropout_mask == nullptr) return std::nullopt;
  DropoutView& dropout = view.dropout.emplace();
  dropout.probability = *options.dropout;
  if (!(dropout.probability >= 0) || !(dropout.probability < 1)) {
    return Invalid("option dropout = {} is outside 0 <= p < 1", dropout.probability);
  }
  const Shape4 plane{view.batch, view.q_heads, view.q_len, view.kv_len};
  return call_parts::Bind("dropout_mask", *arguments.dropout_mask, 4, plane, DType::kBool,
                          dropout.keep);
}

Error ReadDocuments(const Arguments& arguments, CallView& view) {
  if (arguments.document_ids == nullptr) return std::nullopt;
  DocumentsView& documents = view.documents.emplace();
  if (auto error = ReadIntegers("document_ids", *arguments.document_ids, 2, view.batch, view.q_len,
                                INT64_MIN, INT64_MAX, documents.query)) {
    return error;
  }
  return ReadIntegers("key_document_ids", *arguments.key_document_ids, 2, view.batch, view.kv_len,
                      INT64_MIN, INT64_MAX, documents.key);
}

// The number of keys that a prefix may name; where nothing but lengths says kv_len, it may be more,
// and is cut.
Error ReadPrefix(const Arguments& arguments, CallView& view) {
  const bool is_open = view.is_paged() || view.is_packed();
  if (auto error = ReadPerItem("prefix_lengths", arguments.prefix_lengths, view.batch, 0,
                               is_open ? kMaxPosition : view.kv_len, view.prefix_lengths)) {
    return error;
  }
  if (!view.prefix_lengths) return std::nullopt;
  for (int64_t& length : *view.prefix_lengths) length = std::min(length, view.kv_len);
  return std::nullopt;
}

Error ReadPerHead(const char* name, const DLTensor* tensor, const CallView& view,
                  std::optional<std::vector<double>>& target) {
  if (tensor == nullptr) return std::nullopt;
  const DType type = view.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return call_parts::ReadFloats(name, *tensor, view.q_heads, type, target.emplace());
}

Error BindFeatures(const Arguments& arguments, const Options& options, CallView& view) {
  if (auto error = BindMasks(arguments, view)) return error;
  if (auto error = BindBlockMask(arguments, options, view)) return error;
  if (auto error = BindDropout(arguments, options, view)) return error;
  if (auto error = ReadDocuments(arguments, view)) return error;
  if (auto error = ReadPrefix(arguments, view)) return error;
  if (auto error = ReadPerHead("alibi_slopes", arguments.alibi_slopes, view, view.alibi_slopes)) {
    return error;
  }
  if (auto error = ReadPerHead("sinks", arguments.sinks, view, view.sinks)) return error;
  return ReadPerItem("diagonal_offset", arguments.diagonal_offset, view.batch, -kMaxPosition,
                     kMaxPosition, view.diagonal_offset);
}

Error BindRows(const Arguments& arguments, CallView& view) {
  const DType lse_dtype = view.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (!view.is_packed()) {
    const Shape4 out_shape{view.batch, view.q_heads, view.q_len, view.value_dim};
    const Shape4 lse_shape{view.batch, view.q_heads, view.q_len, 1};
    if (auto error = call_parts::Bind("out", *arguments.out, 4, out_shape, view.dtype, view.out)) {
      return error;
    }
    return BindOptional("lse", arguments.lse, 3, lse_shape, lse_dtype, view.lse);
  }
  const int64_t rows = view.q.shape[2];
  if (auto error = call_parts::BindPacked("out", *arguments.out, rows, view.q_heads, view.value_dim,
                                          view.dtype, view.out)) {
    return error;
  }
  if (auto error =
          BindOptional("lse", arguments.lse, 2, {view.q_heads, rows, 1, 1}, lse_dtype, view.lse)) {
    return error;
  }
  if (view.lse) {
    view.lse->shape = {1, view.q_heads, rows, 1};
    view.lse->strides = {0, view.lse->strides[0], view.lse->strides[1], 0};
  }
  return std::nullopt;
}

// Raw and capped scores are those of all keys, the hidden ones too, so all must lie somewhere.
Error CheckScoresHaveKeys(const CallView& view) {
  if (!view.scores || view.score_mode > 1) return std::nullopt;
  for (int64_t b = 0; b < view.batch; ++b) {
    if (view.StoredKeys(b) == view.kv_len) continue;
    return Invalid("scores of {} keys are asked for where pages hold {}", view.kv_len,
                   view.StoredKeys(b));
  }
  return std::nullopt;
}

Error BindOutputs(const Arguments& arguments, CallView& view) {
  const Shape4 plane{view.batch, view.q_heads, view.q_len, view.kv_len};
  const Shape4 k_shape{view.batch, view.kv_heads, view.kv_len, view.head_dim};
  const Shape4 v_shape{view.batch, view.kv_heads, view.kv_len, view.value_dim};
  if (auto error = BindRows(arguments, view)) return error;
  for (const auto& error :
       {BindOptional("weights", arguments.weights, 4, plane, view.dtype, view.weights),
        BindOptional("scores", arguments.scores, 4, plane, view.dtype, view.scores),
        BindOptional("present_k", arguments.present_k, 4, k_shape, view.dtype, view.present_k),
        BindOptional("present_v", arguments.present_v, 4, v_shape, view.dtype, view.present_v)}) {
    if (error) return error;
  }
  return CheckScoresHaveKeys(view);
}

// dbias has the very extents of the bias, and dsink stands beside the sinks.
Error BindOtherGradients(const Arguments& a, CallView& view) {
  GradientsView& g = *view.gradients;
  if (a.dbias != nullptr) {
    if (a.bias == nullptr) return Invalid("dbias is given without bias");
    Shape4 shape{1, 1, 1, 1};
    std::copy_n(a.bias->shape, a.bias->ndim, shape.begin());
    TensorView& dbias = g.dbias.emplace();
    if (auto error =
            call_parts::Bind("dbias", *a.dbias, a.bias->ndim, shape, view.bias_dtype, dbias)) {
      return error;
    }
    // Its axes are the last ones of four.
    std::rotate(dbias.shape.begin(), dbias.shape.begin() + a.bias->ndim, dbias.shape.end());
    std::rotate(dbias.strides.begin(), dbias.strides.begin() + a.bias->ndim, dbias.strides.end());
  }
  if (a.dsink != nullptr && a.sinks == nullptr) return Invalid("dsink is given without sinks");
  const DType type = view.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return BindOptional("dsink", a.dsink, 1, {view.q_heads, 1, 1, 1}, type, g.dsink);
}

Error BindPackedGradients(const Arguments& a, CallView& view) {
  GradientsView& g = *view.gradients;
  const int64_t rows = view.q.shape[2], keys = view.k.shape[2];
  const auto bind = [&](const char* name, const DLTensor& tensor, int64_t count, int64_t heads,
                        int64_t dim, TensorView& target) {
    return call_parts::BindPacked(name, tensor, count, heads, dim, view.dtype, target);
  };
  for (const auto& error : {bind("dout", *a.dout, rows, view.q_heads, view.value_dim, g.dout),
                            bind("dq", *a.dq, rows, view.q_heads, view.head_dim, g.dq),
                            bind("dk", *a.dk, keys, view.kv_heads, view.head_dim, g.dk),
                            bind("dv", *a.dv, keys, view.kv_heads, view.value_dim, g.dv)}) {
    if (error) return error;
  }
  return BindOtherGradients(a, view);
}

// Of a backward call, which has the first four and knows no other storage than the plain and the packed one.
Error BindGradients(const Arguments& a, Pass pass, CallView& view) {
  const std::pair<const char*, const DLTensor*> tensors[] = {
      {"dout", a.dout}, {"dq", a.dq},       {"dk", a.dk},
      {"dv", a.dv},     {"dbias", a.dbias}, {"dsink", a.dsink}};
  for (size_t n = 0; n < std::size(tensors); ++n) {
    const auto& [name, tensor] = tensors[n];
    if (pass == Pass::kForward && tensor != nullptr) {
      return call_parts::Unsupported("{} is not offered in a forward call", name);
    }
    const bool may_lack = n >= 4;
    if (pass == Pass::kBackward && tensor == nullptr && !may_lack) {
      return Invalid("{} is missing", name);
    }
  }
  if (pass == Pass::kForward) return std::nullopt;
  if (view.is_paged() || view.storage.past > 0 || !view.storage.ring_start.empty() || view.fp8) {
    return call_parts::Unsupported("gradients of paged, ring, past or fp8 keys");
  }
  GradientsView& g = view.gradients.emplace();
  if (view.is_packed()) return BindPackedGradients(a, view);
  const Shape4 k_shape{view.batch, view.kv_heads, view.kv_len, view.head_dim};
  const Shape4 v_shape{view.batch, view.kv_heads, view.kv_len, view.value_dim};
  const Shape4 q_shape{view.batch, view.q_heads, view.q_len, view.head_dim};
  for (const auto& error :
       {call_parts::Bind("dout", *a.dout, 4, view.out.shape, view.dtype, g.dout),
        call_parts::Bind("dq", *a.dq, 4, q_shape, view.dtype, g.dq),
        call_parts::Bind("dk", *a.dk, 4, k_shape, view.dtype, g.dk),
        call_parts::Bind("dv", *a.dv, 4, v_shape, view.dtype, g.dv)}) {
    if (error) return error;
  }
  return BindOtherGradients(a, view);
}

Error Parse(const attest_call& call, Pass pass, CallView& view) {
  if (call.struct_size < sizeof(attest_call)) {
    return Invalid("struct_size = {} is below {}", call.struct_size, sizeof(attest_call));
  }
  Arguments arguments;
  Options options;
  if (auto error = call_parts::CollectArguments(call, arguments)) return error;
  if (auto error = call_parts::CollectOptions(call, options)) return error;
  if (auto error = CheckPairs(options, arguments)) return error;
  if (auto error = ReadScalars(options, view)) return error;
  if (auto error = call_parts::ReadStorage(arguments, options, view)) return error;
  if (auto error = BindFeatures(arguments, options, view)) return error;
  if (auto error = BindOutputs(arguments, view)) return error;
  return BindGradients(arguments, pass, view);
}

}  // namespace

tl::expected<CallView, CallError> ParseCall(const attest_call& call, Pass pass) {
  CallView view;
  if (auto error = Parse(call, pass, view)) return tl::unexpected(*error);
  return view;
}

}  // namespace attest
