#include "impl/adapters/onnxruntime/group_query.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "impl/abi/kernel_table.h"

namespace attest::ort {
namespace {

constexpr CallPart kTakes[] = {
    ATTEST_ROLE_Q,         ATTEST_ROLE_K,           ATTEST_ROLE_V,
    ATTEST_ROLE_BIAS,      ATTEST_ROLE_KEY_LENGTHS, ATTEST_ROLE_PAST_K,
    ATTEST_ROLE_PAST_V,    ATTEST_ROLE_SINKS,       ATTEST_ROLE_OUT,
    ATTEST_ROLE_PRESENT_K, ATTEST_ROLE_PRESENT_V,   ATTEST_OPTION_SCALE,
    ATTEST_OPTION_CAUSAL,  ATTEST_OPTION_SOFTCAP,   ATTEST_OPTION_WINDOW_LEFT};

// How the keys of a call are split: item b has past[b] keys in the cache and q_len new ones.
struct Split {
  std::vector<int64_t> past;
  int64_t capacity = 0;  // of the cache: the longest past
  int64_t total = 0;     // keys of the longest item
};

// Nothing where an item has fewer keys than queries.
std::optional<Split> SplitOf(const CallView& view) {
  Split split;
  for (int64_t b = 0; b < view.batch; ++b) {
    split.past.push_back(view.KeyLength(b) - view.q_len);
    if (split.past.back() < 0) return std::nullopt;
    split.capacity = std::max(split.capacity, split.past.back());
    split.total = std::max(split.total, view.KeyLength(b));
  }
  return split;
}

// Copies `size` bytes a component of one row.
void CopyRow(const RowSpan<const std::byte>& row, int64_t dim, size_t size, std::byte* target) {
  for (int64_t d = 0; d < dim; ++d) {
    const auto at = static_cast<size_t>(d * row.stride) * size;
    std::memcpy(target + static_cast<size_t>(d) * size, row.data + at, size);
  }
}

// Row j of the keys (or values) as bytes. CallView counts in elements, so the row's place is worked
// out in the element's own type.
template <typename T>
RowSpan<const std::byte> BytesOf(const RowSpan<const T>& row) {
  return {reinterpret_cast<const std::byte*>(row.data), row.stride};
}

// Copies row j of the keys or the values to `target`.
void CopyStored(const CallView& view, bool is_key, int64_t b, int64_t h, int64_t j,
                std::byte* target) {
  const auto copy = [&](const auto& row, size_t size) {
    CopyRow(BytesOf(row), view.head_dim, size, target);
  };
  if (view.dtype == DType::kF32) {
    copy(is_key ? view.KeyAt<float>(b, h, j) : view.ValueAt<float>(b, h, j), sizeof(float));
  } else {
    copy(is_key ? view.KeyAt<uint16_t>(b, h, j) : view.ValueAt<uint16_t>(b, h, j),
         sizeof(uint16_t));
  }
}

// The cache: [batch, kv_heads, capacity, head_dim]. What lies behind an item's own past is what lies
// there in the call.
Tensor PastOf(const CallView& view, const Split& split, bool is_key, ElementType type,
              OnnxCall* call) {
  Tensor past = MakeCopy(is_key ? "past_key" : "past_value", type,
                         {view.batch, view.kv_heads, split.capacity, view.head_dim}, call);
  auto* target = static_cast<std::byte*>(past.data);
  const size_t row = ByteSize(type) * static_cast<size_t>(view.head_dim);
  for (int64_t b = 0; b < view.batch; ++b)
    for (int64_t h = 0; h < view.kv_heads; ++h)
      for (int64_t j = 0; j < split.capacity; ++j, target += row) {
        CopyStored(view, is_key, b, h, j, target);
      }
  return past;
}

// The new keys: [batch, q_len, kv_heads * head_dim].
Tensor NewOf(const CallView& view, const Split& split, bool is_key, ElementType type,
             OnnxCall* call) {
  Tensor recent = MakeCopy(is_key ? "key" : "value", type,
                           {view.batch, view.q_len, view.kv_heads * view.head_dim}, call);
  auto* target = static_cast<std::byte*>(recent.data);
  const size_t row = ByteSize(type) * static_cast<size_t>(view.head_dim);
  for (int64_t b = 0; b < view.batch; ++b)
    for (int64_t i = 0; i < view.q_len; ++i)
      for (int64_t h = 0; h < view.kv_heads; ++h, target += row) {
        CopyStored(view, is_key, b, h, split.past[static_cast<size_t>(b)] + i, target);
      }
  return recent;
}

Tensor IntegersOf(const char* name, std::vector<int64_t> shape, const std::vector<int64_t>& values,
                  OnnxCall* call) {
  Tensor tensor = MakeCopy(name, ElementType::kInt32, std::move(shape), call);
  std::transform(values.begin(), values.end(), static_cast<int32_t*>(tensor.data),
                 [](int64_t value) { return static_cast<int32_t>(value); });
  return tensor;
}

Tensor SinksOf(const CallView& view, OnnxCall* call) {
  Tensor sinks = MakeCopy("head_sink", ElementType::kFloat, {view.q_heads}, call);
  std::transform(view.sinks->begin(), view.sinks->end(), static_cast<float*>(sinks.data),
                 [](double sink) { return static_cast<float>(sink); });
  return sinks;
}

std::vector<Attribute> AttributesOf(const CallView& view, const Settings& settings) {
  std::vector<Attribute> attributes = {{"num_heads", view.q_heads},
                                       {"kv_num_heads", view.kv_heads},
                                       {"scale", static_cast<float>(view.scale)}};
  if (view.softcap > 0) attributes.push_back({"softcap", static_cast<float>(view.softcap)});
  if (view.window_left) attributes.push_back({"local_window_size", *view.window_left});
  if (HasCausalSwitch(settings.version)) attributes.push_back({"causal", int64_t{view.causal}});
  return attributes;
}

// What the operator has no word for although its parts are known; nullptr where there is nothing.
const char* WhyNot(const CallView& view, const Settings& settings) {
  if (!ElementTypeOf(view.dtype)) return "f32 and f16 only";
  if (view.bias && view.bias_dtype != view.dtype) return "a bias has the type of the other inputs";
  if (view.value_dim != view.head_dim) return "value_dim is head_dim here";
  if (view.sinks && view.dtype != DType::kF32) return "sinks in f16 would be rounded";
  if (!view.causal && !HasCausalSwitch(settings.version)) return "every call is causal here";
  return nullptr;
}

// Every place but those of rotary embedding and quantised caches. The present is asked for in every
// call, as models do.
void FillTensors(const CallView& view, const Split& split, ElementType type, OnnxCall* call) {
  call->inputs.resize(12);
  call->outputs.resize(3);
  call->inputs[1] = NewOf(view, split, /*is_key=*/true, type, call);
  call->inputs[2] = NewOf(view, split, /*is_key=*/false, type, call);
  if (split.capacity > 0) {
    call->inputs[3] = PastOf(view, split, /*is_key=*/true, type, call);
    call->inputs[4] = PastOf(view, split, /*is_key=*/false, type, call);
  }
  std::vector<int64_t> lengths;
  for (const int64_t past : split.past) lengths.push_back(past + view.q_len - 1);
  call->inputs[5] = IntegersOf("seqlens_k", {view.batch}, lengths, call);
  call->inputs[6] = IntegersOf("total_sequence_length", {}, {split.total}, call);
  if (view.bias) {
    call->inputs[10] = AsDense("attention_bias", type, *view.bias, split.total, call);
  }
  if (view.sinks) call->inputs[11] = SinksOf(view, call);
  const std::vector<int64_t> cache = {view.batch, view.kv_heads, split.total, view.head_dim};
  const auto present = [&](const char* name, const std::optional<TensorView>& wanted) {
    return wanted ? AsDense(name, type, *wanted, view.head_dim, call)
                  : MakeCopy(name, type, cache, call);
  };
  call->outputs[1] = present("present_key", view.present_k);
  call->outputs[2] = present("present_value", view.present_v);
}

}  // namespace

bool HasCausalSwitch(const std::string& version) {
  char* minor = nullptr;
  const auto major = std::strtol(version.c_str(), &minor, 10);
  return major > 1 || (major == 1 && *minor == '.' && std::strtol(minor + 1, nullptr, 10) >= 30);
}

// docs/ContribOperators.md, com.microsoft.GroupQueryAttention:
// - seqlens_k is "total_sequence_lengths - 1" of each item, total being "past + new"; the new keys are
//   those of the queries. So row i stands at key (length - q_len) + i.
// - "sequence_length > 1 requires batch_size == 1" when past context is present.
// - local_window_size is "left_window_size for local attention (like Mistral)", causal only.
// - causal is an attribute since 1.30: "Must be 0 or 1. Default value is 1". Before, all calls are.
// - attention_bias "(batch_size or 1, num_heads or 1, sequence_length, total_sequence_length)".
// - head_sink is of the inputs' type, attest's sinks are f32: no sinks beside f16.
// - head_size must be a multiple of 8. That stands in no document, but in the runtime's own refusal.
// An item cannot have fewer keys than queries, and a present of items of unequal lengths leaves open what
// attest compares. So ?step= chooses what is offered:
//   token   one query an item, any batch, past and present
//   ragged  one query an item, any batch, key lengths
//   chunk   one batch item, past and present
std::string GroupQueryContract(const Settings& settings) {
  return std::string(R"({"contract": "ort-gqa", "causal": ")") +
         (HasCausalSwitch(settings.version) ? "optional" : "always") +
         R"(", "window_sides": "left_if_causal",
             "features": ["causal", "window", "gqa", "softcap", "bias", )" +
         (settings.step == "ragged" ? R"("key_lengths")" : R"("past", "present")") +
         (settings.sinks ? R"(, "sinks"], "dtypes": ["f32"])" : R"(], "dtypes": ["f32", "f16"])") +
         R"(, "limits": {"head_dim_multiple": 8, )" +
         (settings.step == "chunk" ? R"("max_batch": 1})" : R"("max_q_len": 1})") +
         R"(, "excludes": ["fewer_keys_than_queries", "zero_scale"], "concurrent_calls": true,
             "options": {"variant": ["attention", "mha", "gqa"],
                         "step": ["token", "ragged", "chunk"], "sinks": ["off", "on"]}})";
}

OnnxCalls ReadGroupQuery(const attest_call& call, const Settings& settings) {
  const auto parsed = ParseCall(call);
  if (!parsed) return tl::unexpected(parsed.error());
  if (auto known = RefuseOtherParts(call, kTakes); !known) return tl::unexpected(known.error());
  const CallView& view = *parsed;
  const auto unsupported = [](const char* why) {
    return tl::unexpected(CallError{ATTEST_UNSUPPORTED, why});
  };
  if (const char* why = WhyNot(view, settings)) return unsupported(why);
  const auto split = SplitOf(view);
  if (!split) return unsupported("an item has fewer keys than queries");
  const ElementType type = *ElementTypeOf(view.dtype);
  OnnxCall result{.op = "GroupQueryAttention", .domain = "com.microsoft"};
  result.attributes = AttributesOf(view, settings);
  FillTensors(view, *split, type, &result);
  auto query = AsHidden("query", type, view.q);
  if (!query) return tl::unexpected(std::move(query).error());
  result.inputs[0] = std::move(*query);
  auto out = AsHidden("output", type, view.out);
  if (!out) return tl::unexpected(std::move(out).error());
  result.outputs[0] = std::move(*out);
  std::vector<OnnxCall> calls;
  calls.push_back(std::move(result));
  return calls;
}

}  // namespace attest::ort
