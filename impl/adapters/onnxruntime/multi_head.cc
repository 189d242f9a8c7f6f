#include "impl/adapters/onnxruntime/multi_head.h"

#include <utility>

#include "impl/abi/kernel_table.h"

namespace attest::ort {
namespace {

constexpr CallPart kTakes[] = {ATTEST_ROLE_Q,           ATTEST_ROLE_K,       ATTEST_ROLE_V,
                               ATTEST_ROLE_BIAS,        ATTEST_ROLE_PAST_K,  ATTEST_ROLE_PAST_V,
                               ATTEST_ROLE_KEY_LENGTHS, ATTEST_ROLE_OUT,     ATTEST_ROLE_PRESENT_K,
                               ATTEST_ROLE_PRESENT_V,   ATTEST_OPTION_SCALE, ATTEST_OPTION_CAUSAL};

Tensor LengthsOf(const CallView& view, OnnxCall* call) {
  Tensor lengths = MakeCopy("key_padding_mask", ElementType::kInt32, {view.batch}, call);
  for (int64_t b = 0; b < view.batch; ++b) {
    static_cast<int32_t*>(lengths.data)[b] = static_cast<int32_t>(view.KeyLength(b));
  }
  return lengths;
}

}  // namespace

// docs/ContribOperators.md, com.microsoft.MultiHeadAttention:
// - unidirectional: "every token can only attend to previous tokens": row i stands at key i, behind a
//   past at past + i, whatever the key lengths.
// - key_padding_mask "(batch_size)": "actual length of each key sequence excluding paddings". Of a length
//   beside a past nothing is said, so one instance offers lengths and another the past.
// - attention_bias "(batch_size or 1, num_heads or 1, sequence_length, total_sequence_length)": rows are
//   never broadcast.
// - past_value and present_value have head_size: no other value size beside a past.
// - mask_filter_value: "Default value is -10000.0f" (in the named contract).
std::string MultiHeadContract(const Settings& settings) {
  const std::string features =
      settings.past
          ? R"("causal_offset": ["by_inputs"], "features": ["causal", "bias", "past", "present"])"
          : R"("causal_offset": ["zero"],
               "features": ["causal", "bias", "key_lengths", "value_dim"])";
  return R"({"contract": "ort-mha", )" + features +
         R"(, "dtypes": ["f32", "f16"], "concurrent_calls": true,
             "options": {"variant": ["attention", "mha", "gqa"],
                         "past": ["off", "on"]}})";
}

OnnxCalls ReadMultiHead(const attest_call& call, const Settings&) {
  const auto parsed = ParseCall(call);
  if (!parsed) return tl::unexpected(parsed.error());
  if (auto known = RefuseOtherParts(call, kTakes); !known) return tl::unexpected(known.error());
  const CallView& view = *parsed;
  const auto type = ElementTypeOf(view.dtype);
  if (!type || view.q_heads != view.kv_heads || (view.bias && view.bias_dtype != view.dtype)) {
    return tl::unexpected(
        CallError{ATTEST_UNSUPPORTED,
                  "f32 and f16 only, a bias of the same type, as many kv heads as query heads"});
  }
  OnnxCall result{.op = "MultiHeadAttention", .domain = "com.microsoft"};
  result.attributes = {{"num_heads", view.q_heads},
                       {"scale", static_cast<float>(view.scale)},
                       {"unidirectional", int64_t{view.causal}}};
  result.inputs.resize(8);
  result.outputs.resize(3);
  for (const auto& [name, tensor, target] : {std::tuple{"query", &view.q, &result.inputs[0]},
                                             {"key", &view.k, &result.inputs[1]},
                                             {"value", &view.v, &result.inputs[2]},
                                             {"output", &view.out, &result.outputs[0]}}) {
    auto hidden = AsHidden(name, *type, *tensor);
    if (!hidden) return tl::unexpected(std::move(hidden).error());
    *target = std::move(*hidden);
  }
  const auto dense = [&](const char* name, const TensorView& tensor) {
    return AsDense(name, *type, tensor, tensor.shape[3], &result);
  };
  if (view.key_lengths) result.inputs[4] = LengthsOf(view, &result);
  if (view.bias) result.inputs[5] = dense("attention_bias", *view.bias);
  if (view.storage.has_past) {
    result.inputs[6] = dense("past_key", view.storage.past_k);
    result.inputs[7] = dense("past_value", view.storage.past_v);
  }
  if (view.present_k) result.outputs[1] = dense("present_key", *view.present_k);
  if (view.present_v) result.outputs[2] = dense("present_value", *view.present_v);
  std::vector<OnnxCall> calls;
  calls.push_back(std::move(result));
  return calls;
}

}  // namespace attest::ort
