#include "impl/adapters/onnxruntime/call_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace attest::ort {
namespace {

constexpr int kFirstOpsetWithKeyLengths = 24;

tl::unexpected<Refusal> Unsupported(std::string message) {
  return tl::unexpected(Refusal{ATTEST_UNSUPPORTED, std::move(message)});
}

tl::unexpected<Refusal> Invalid(std::string message) {
  return tl::unexpected(Refusal{ATTEST_INVALID_ARGUMENT, std::move(message)});
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

// The name of a role's tensor in the model; nullptr for roles that ONNX Attention does not have.
const char* NameOfRole(int32_t role) {
  switch (role) {
    case ATTEST_ROLE_Q:
      return kQ;
    case ATTEST_ROLE_K:
      return kK;
    case ATTEST_ROLE_V:
      return kV;
    case ATTEST_ROLE_MASK:
    case ATTEST_ROLE_BIAS:
      return kAttnMask;
    case ATTEST_ROLE_KEY_LENGTHS:
      return kKeyLengths;
    case ATTEST_ROLE_OUT:
      return kY;
    case ATTEST_ROLE_WEIGHTS:
      return kWeights;
    default:
      return nullptr;
  }
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

tl::expected<Tensor, Refusal> ReadTensor(const attest_argument& argument) {
  const char* name = NameOfRole(argument.role);
  const std::string role = "role " + std::to_string(argument.role);
  if (name == nullptr) return Unsupported(role + ": ONNX Attention has no such tensor");
  if (argument.tensor == nullptr) return Invalid(role + ": no tensor");
  const DLTensor& tensor = *argument.tensor;
  if (tensor.device.device_type != kDLCPU) return Unsupported(role + ": not in CPU memory");
  if (!HasRank(argument.role, tensor.ndim)) {
    return Invalid(role + ": rank " + std::to_string(tensor.ndim) + " is not one of its ranks");
  }
  const auto type = TypeInRole(argument.role, tensor.dtype);
  if (!type) return Unsupported(role + ": its element type is not one that ONNX takes here");
  if (!IsDense(tensor)) return Unsupported(role + ": ONNX tensors are dense");
  Tensor result{name, *type, {tensor.shape, tensor.shape + tensor.ndim}, nullptr, 0};
  result.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  result.bytes = (tensor.dtype.bits + 7u) / 8u;
  for (const int64_t extent : result.shape) {
    if (extent < 0) return Invalid(role + ": a negative extent");
    result.bytes *= static_cast<size_t>(extent);
  }
  return result;
}

// Takes the tensor into the call, and what it says about the model.
tl::expected<void, Refusal> AddTensor(int32_t role, Tensor tensor, OnnxCall* call) {
  ModelSpec& model = call->model;
  if (role == ATTEST_ROLE_Q) model.type = tensor.type;
  if (role == ATTEST_ROLE_KEY_LENGTHS) {
    if (model.opset < kFirstOpsetWithKeyLengths) {
      return Unsupported("key lengths came with opset 24, this is ?opset=" +
                         std::to_string(model.opset));
    }
    model.key_lengths = true;
  }
  if (role == ATTEST_ROLE_MASK || role == ATTEST_ROLE_BIAS) {
    if (model.mask) return Unsupported("a mask and a bias together: ONNX has one attn_mask");
    model.mask = tensor.type;
  }
  if (role == ATTEST_ROLE_WEIGHTS) model.weights = true;
  if (role == ATTEST_ROLE_OUT) {
    call->outputs.insert(call->outputs.begin(), std::move(tensor));
  } else if (role == ATTEST_ROLE_WEIGHTS) {
    call->outputs.push_back(std::move(tensor));
  } else {
    call->inputs.push_back(std::move(tensor));
  }
  return {};
}

tl::expected<void, Refusal> ReadOptions(const attest_call& call, ModelSpec* model) {
  bool scale_given = false;
  for (uint32_t i = 0; i < call.num_options; ++i) {
    const attest_option& option = call.options[i];
    if (option.id == ATTEST_OPTION_SCALE && option.is_float != 0) {
      model->scale = static_cast<float>(option.value.f);
      scale_given = true;
    } else if (option.id == ATTEST_OPTION_CAUSAL && option.is_float == 0) {
      model->causal = option.value.i != 0;
    } else {
      return Unsupported("option " + std::to_string(option.id) +
                         ": not an attribute of ONNX Attention-" + std::to_string(model->opset));
    }
  }
  if (!scale_given) return Invalid("no scale");
  return {};
}

// The runtime judges sizes, but it must not be called without the tensors that every model has.
tl::expected<void, Refusal> CheckComplete(const attest_call& call) {
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

}  // namespace

tl::expected<OnnxCall, Refusal> ReadCall(const attest_call& call, int opset) {
  OnnxCall result;
  result.model.opset = opset;
  if (auto read = ReadOptions(call, &result.model); !read) return tl::unexpected(read.error());
  if (auto complete = CheckComplete(call); !complete) return tl::unexpected(complete.error());
  for (uint32_t i = 0; i < call.num_arguments; ++i) {
    const attest_argument& argument = call.arguments[i];
    auto tensor = ReadTensor(argument);
    if (!tensor) return tl::unexpected(std::move(tensor).error());
    auto added = AddTensor(argument.role, std::move(*tensor), &result);
    if (!added) return tl::unexpected(std::move(added).error());
  }
  return result;
}

}  // namespace attest::ort
