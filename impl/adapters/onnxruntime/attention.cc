#include "impl/adapters/onnxruntime/attention.h"

#include <algorithm>
#include <utility>

namespace attest::ort {
namespace {

constexpr int kFirstOpsetWithKeyLengths = 24;
constexpr size_t kMaskPosition = 3;    // of attn_mask
constexpr size_t kScoresPosition = 3;  // of qk_matmul_output
constexpr int64_t kProbabilities = 3;  // qk_matmul_output_mode: after the softmax

struct Place {
  int32_t role;
  const char* name;
  size_t position;
};
constexpr Place kInputs[] = {{ATTEST_ROLE_Q, "Q", 0},
                             {ATTEST_ROLE_K, "K", 1},
                             {ATTEST_ROLE_V, "V", 2},
                             {ATTEST_ROLE_MASK, "attn_mask", kMaskPosition},
                             {ATTEST_ROLE_BIAS, "attn_mask", kMaskPosition},
                             {ATTEST_ROLE_PAST_K, "past_key", 4},
                             {ATTEST_ROLE_PAST_V, "past_value", 5},
                             {ATTEST_ROLE_KEY_LENGTHS, "nonpad_kv_seqlen", 6}};
constexpr Place kOutputs[] = {{ATTEST_ROLE_OUT, "Y", 0},
                              {ATTEST_ROLE_PRESENT_K, "present_key", 1},
                              {ATTEST_ROLE_PRESENT_V, "present_value", 2},
                              {ATTEST_ROLE_WEIGHTS, "qk_matmul_output", kScoresPosition},
                              {ATTEST_ROLE_SCORES, "qk_matmul_output", kScoresPosition}};

tl::unexpected<CallError> Unsupported(std::string message) {
  return tl::unexpected(CallError{ATTEST_UNSUPPORTED, std::move(message)});
}

tl::unexpected<CallError> Invalid(std::string message) {
  return tl::unexpected(CallError{ATTEST_INVALID_ARGUMENT, std::move(message)});
}

bool IsOutput(int32_t role) {
  return role >= ATTEST_ROLE_OUT;
}

// Where a role's tensor goes; nullptr for roles that the operator does not have.
const Place* PlaceOf(int32_t role) {
  const auto is_it = [role](const Place& place) { return place.role == role; };
  const auto find = [&](const auto& places) -> const Place* {
    const auto found = std::find_if(std::begin(places), std::end(places), is_it);
    return found == std::end(places) ? nullptr : found;
  };
  return IsOutput(role) ? find(kOutputs) : find(kInputs);
}

std::optional<ElementType> FloatType(const DLDataType& type) {
  if (type.lanes != 1) return std::nullopt;
  if (type.code == kDLBfloat && type.bits == 16) return ElementType::kBFloat16;
  if (type.code != kDLFloat) return std::nullopt;
  switch (type.bits) {
    case 16:
      return ElementType::kFloat16;
    case 32:
      return ElementType::kFloat;
    case 64:
      return ElementType::kDouble;
    default:
      return std::nullopt;
  }
}

// The ONNX type of a tensor in its role; nullopt where the role does not take the tensor's type.
std::optional<ElementType> TypeInRole(int32_t role, const DLDataType& type) {
  if (role == ATTEST_ROLE_MASK) {
    const bool bytes = type.code == kDLUInt && type.bits == 8 && type.lanes == 1;
    return bytes ? std::optional(ElementType::kBool) : std::nullopt;
  }
  if (role == ATTEST_ROLE_KEY_LENGTHS) {
    const bool longs = type.code == kDLInt && type.bits == 64 && type.lanes == 1;
    return longs ? std::optional(ElementType::kInt64) : std::nullopt;
  }
  return FloatType(type);
}

// Row-major without gaps. Extents of 1 may have any stride, and so may everything in an empty
// tensor.
bool IsDense(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  bool dense = true;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) dense = false;
    expected *= tensor.shape[i];
  }
  return dense;
}

bool HasRank(int32_t role, int rank) {
  switch (role) {
    case ATTEST_ROLE_KEY_LENGTHS:
      return rank == 1;
    case ATTEST_ROLE_MASK:
    case ATTEST_ROLE_BIAS:
      return rank >= 2 && rank <= 4;
    default:
      return rank == 4;
  }
}

tl::expected<Tensor, CallError> ReadTensor(const attest_argument& argument, const char* name) {
  const std::string role = "role " + std::to_string(argument.role);
  if (argument.tensor == nullptr) return Invalid(role + ": no tensor");
  const DLTensor& tensor = *argument.tensor;
  if (tensor.device.device_type != kDLCPU) return Unsupported(role + ": not in CPU memory");
  if (!HasRank(argument.role, tensor.ndim)) {
    return Invalid(role + ": rank " + std::to_string(tensor.ndim) + " is not one of its ranks");
  }
  const auto type = TypeInRole(argument.role, tensor.dtype);
  if (!type) return Unsupported(role + ": its element type is not one that ONNX takes here");
  if (!IsDense(tensor)) return Unsupported(role + ": ONNX tensors are dense");
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; })) {
    return Invalid(role + ": a negative extent");
  }
  return MakeTensor(name, *type, std::move(shape),
                    static_cast<char*>(tensor.data) + tensor.byte_offset);
}

// What the options say: the attributes, and which scores are wanted.
struct Wanted {
  std::vector<Attribute> attributes;
  std::optional<int64_t> score_mode;
};

tl::expected<Wanted, CallError> ReadOptions(const attest_call& call, int opset) {
  Wanted wanted;
  bool scale_given = false;
  for (uint32_t i = 0; i < call.num_options; ++i) {
    const attest_option& option = call.options[i];
    if (option.id == ATTEST_OPTION_SCALE && option.is_float != 0) {
      wanted.attributes.push_back({"scale", static_cast<float>(option.value.f)});
      scale_given = true;
    } else if (option.id == ATTEST_OPTION_SOFTCAP && option.is_float != 0) {
      wanted.attributes.push_back({"softcap", static_cast<float>(option.value.f)});
    } else if (option.id == ATTEST_OPTION_CAUSAL && option.is_float == 0) {
      wanted.attributes.push_back({"is_causal", int64_t{option.value.i != 0}});
    } else if (option.id == ATTEST_OPTION_SCORES && option.is_float == 0) {
      wanted.score_mode = option.value.i;
    } else {
      return Unsupported("option " + std::to_string(option.id) +
                         ": not an attribute of ONNX Attention-" + std::to_string(opset));
    }
  }
  if (!scale_given) return Invalid("no scale");
  return wanted;
}

// The runtime judges sizes, but it must not be called without the tensors that every model has.
tl::expected<void, CallError> CheckComplete(const attest_call& call) {
  for (const int32_t role : {ATTEST_ROLE_Q, ATTEST_ROLE_K, ATTEST_ROLE_V, ATTEST_ROLE_OUT}) {
    const auto count = std::count_if(call.arguments, call.arguments + call.num_arguments,
                                     [role](const attest_argument& a) { return a.role == role; });
    if (count != 1) {
      return Invalid("role " + std::to_string(role) + ": given " + std::to_string(count) +
                     " times instead of once");
    }
  }
  return {};
}

// Puts every tensor in its place; scores, which may stand beside the weights, go to `scores`.
tl::expected<void, CallError> ReadTensors(const attest_call& call, OnnxCall* result,
                                          Tensor* scores) {
  result->inputs.resize(std::size(kInputs) - 1);    // a mask and a bias have one place
  result->outputs.resize(std::size(kOutputs) - 1);  // and so have weights and scores
  for (uint32_t i = 0; i < call.num_arguments; ++i) {
    const attest_argument& argument = call.arguments[i];
    const Place* place = PlaceOf(argument.role);
    if (place == nullptr) {
      return Unsupported("role " + std::to_string(argument.role) +
                         ": ONNX Attention has no such tensor");
    }
    if (argument.role == ATTEST_ROLE_KEY_LENGTHS && result->opset < kFirstOpsetWithKeyLengths) {
      return Unsupported("key lengths came with opset 24, this is ?opset=" +
                         std::to_string(result->opset));
    }
    auto tensor = ReadTensor(argument, place->name);
    if (!tensor) return tl::unexpected(std::move(tensor).error());
    auto& side = IsOutput(argument.role) ? result->outputs : result->inputs;
    Tensor& target = argument.role == ATTEST_ROLE_SCORES ? *scores : side[place->position];
    if (target.is_present()) return Unsupported("ONNX has one attn_mask: a mask or a bias");
    target = std::move(*tensor);
  }
  return {};
}

// The second call, for scores beside weights: the same but for what qk_matmul_output holds, with
// other memory for all that the first one writes.
OnnxCall ForScores(const OnnxCall& first, Tensor scores) {
  OnnxCall second{.op = first.op, .domain = first.domain, .opset = first.opset};
  second.attributes = first.attributes;
  second.inputs = first.inputs;
  for (const Tensor& output : first.outputs) {
    second.outputs.push_back(
        output.is_present() ? MakeCopy(output.name, output.type, output.shape, &second) : Tensor());
  }
  second.outputs[kScoresPosition] = std::move(scores);
  return second;
}

}  // namespace

// The standard's contract, for the element types of the runtime's CPU kernels (its
// docs/OperatorKernels.md). Key lengths "should not be used together with past_key and past_value", so
// one instance offers these and another those. A scale that is not above 0 is refused (the runtime's
// attention.cc). Sessions may be run by many threads at once (the documentation of OrtApi::Run).
std::string AttentionContract(const Settings& settings) {
  const bool is_first = settings.opset < kFirstOpsetWithKeyLengths;
  const std::string last = is_first ? R"("mask_key_broadcast")" : "";
  const std::string storage = settings.past || is_first ? R"("past", "present")" : "";
  const std::string lengths = settings.past || is_first ? "" : R"("key_lengths")";
  std::string features;
  for (const std::string& feature : {last, storage, lengths}) {
    if (!feature.empty()) features += ", " + feature;
  }
  return R"({"contract": "onnx-attention-)" + std::to_string(settings.opset) +
         R"(", "features": ["causal", "mask", "bias", "gqa", "value_dim", "weights", "softcap",
                            "mask_broadcast", "mask_ranks")" +
         features + R"(], "scores": ["raw", "capped", "biased", "weights"],
             "dtypes": ["f32", "f16"], "excludes": ["past_without_present", "zero_scale", "negative_scale"],
             "concurrent_calls": true, "options": {"variant": ["attention", "mha", "gqa"],
                         "opset": ["23", "24"], "past": ["off", "on"]}})";
}

OnnxCalls ReadAttention(const attest_call& call, const Settings& settings) {
  auto wanted = ReadOptions(call, settings.opset);
  if (!wanted) return tl::unexpected(std::move(wanted).error());
  if (auto complete = CheckComplete(call); !complete) return tl::unexpected(complete.error());
  OnnxCall first{.opset = settings.opset};
  first.attributes = std::move(wanted->attributes);
  Tensor scores;
  if (auto read = ReadTensors(call, &first, &scores); !read) return tl::unexpected(read.error());
  if (scores.is_present() != wanted->score_mode.has_value()) {
    return Invalid("scores and their option go together");
  }
  std::vector<OnnxCall> calls;
  const auto add = [&](OnnxCall made, int64_t mode) {
    made.attributes.push_back({"qk_matmul_output_mode", mode});
    calls.push_back(std::move(made));
  };
  Tensor& output = first.outputs[kScoresPosition];
  const bool has_weights = output.is_present();
  if (has_weights && scores.is_present()) add(ForScores(first, scores), *wanted->score_mode);
  if (!has_weights) output = std::move(scores);
  if (!output.is_present()) {
    calls.push_back(std::move(first));
  } else {
    add(std::move(first), has_weights ? kProbabilities : *wanted->score_mode);
  }
  return calls;
}

}  // namespace attest::ort
