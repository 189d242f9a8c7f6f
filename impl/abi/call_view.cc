#include "impl/abi/call_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace attest {
namespace {

// Far above any size that fits a machine, far below where adding positions could overflow.
constexpr int64_t kMaxPosition = int64_t{1} << 40;
// With positions and offsets within kMaxPosition a wider window hides nothing: it may be cut to
// this.
constexpr int64_t kMaxWindow = int64_t{1} << 42;

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
  const DLTensor* q = nullptr;
  const DLTensor* k = nullptr;
  const DLTensor* v = nullptr;
  const DLTensor* mask = nullptr;
  const DLTensor* bias = nullptr;
  const DLTensor* key_lengths = nullptr;
  const DLTensor* diagonal_offset = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* lse = nullptr;
  const DLTensor* weights = nullptr;
};

struct RoleName {
  int32_t role;
  const char* name;
  const DLTensor* Arguments::*slot;
  bool required;
};

constexpr RoleName kRoles[] = {
    {ATTEST_ROLE_Q, "q", &Arguments::q, true},
    {ATTEST_ROLE_K, "k", &Arguments::k, true},
    {ATTEST_ROLE_V, "v", &Arguments::v, true},
    {ATTEST_ROLE_MASK, "mask", &Arguments::mask, false},
    {ATTEST_ROLE_BIAS, "bias", &Arguments::bias, false},
    {ATTEST_ROLE_KEY_LENGTHS, "key_lengths", &Arguments::key_lengths, false},
    {ATTEST_ROLE_DIAGONAL_OFFSET, "diagonal_offset", &Arguments::diagonal_offset, false},
    {ATTEST_ROLE_OUT, "out", &Arguments::out, true},
    {ATTEST_ROLE_LSE, "lse", &Arguments::lse, false},
    {ATTEST_ROLE_WEIGHTS, "weights", &Arguments::weights, false},
};

Error CollectArguments(const attest_call& call, Arguments& arguments) {
  if (call.num_arguments != 0 && call.arguments == nullptr) {
    return Invalid("num_arguments is not 0 but arguments is null");
  }
  for (uint32_t n = 0; n < call.num_arguments; ++n) {
    const auto& [role, tensor] = call.arguments[n];
    const auto* known = std::find_if(std::begin(kRoles), std::end(kRoles),
                                     [r = role](const RoleName& name) { return name.role == r; });
    if (known == std::end(kRoles)) return Unsupported("tensor role {} is not offered", role);
    if (tensor == nullptr) return Invalid("{} is a null tensor", known->name);
    if (arguments.*known->slot != nullptr) return Invalid("{} is given twice", known->name);
    arguments.*known->slot = tensor;
  }
  for (const RoleName& role : kRoles) {
    if (role.required && arguments.*role.slot == nullptr)
      return Invalid("{} is missing", role.name);
  }
  return std::nullopt;
}

Error ReadWindowSide(const char* name, int64_t value, std::optional<int64_t>& side) {
  if (value < 0) return Invalid("{} = {} is negative; leave it out for an open side", name, value);
  side = std::min(value, kMaxWindow);
  return std::nullopt;
}

Error ReadOption(const attest_option& option, CallView& view, bool& has_scale) {
  switch (option.id) {
    case ATTEST_OPTION_SCALE:
      if (option.is_float != 1) return Invalid("option scale must be a float");
      view.scale = option.value.f;
      has_scale = true;
      return std::nullopt;
    case ATTEST_OPTION_CAUSAL:
      if (option.is_float != 0) return Invalid("option causal must be an integer");
      if (option.value.i != 0 && option.value.i != 1) {
        return Invalid("option causal = {} is neither 0 nor 1", option.value.i);
      }
      view.causal = option.value.i == 1;
      return std::nullopt;
    case ATTEST_OPTION_WINDOW_LEFT:
      if (option.is_float != 0) return Invalid("option window_left must be an integer");
      return ReadWindowSide("window_left", option.value.i, view.window_left);
    case ATTEST_OPTION_WINDOW_RIGHT:
      if (option.is_float != 0) return Invalid("option window_right must be an integer");
      return ReadWindowSide("window_right", option.value.i, view.window_right);
    default:
      return Unsupported("option {} is not offered", option.id);
  }
}

Error ReadOptions(const attest_call& call, CallView& view) {
  if (call.num_options != 0 && call.options == nullptr) {
    return Invalid("num_options is not 0 but options is null");
  }
  bool has_scale = false;
  for (uint32_t n = 0; n < call.num_options; ++n) {
    for (uint32_t earlier = 0; earlier < n; ++earlier) {
      if (call.options[earlier].id == call.options[n].id) {
        return Invalid("option {} is given twice", call.options[n].id);
      }
    }
    if (auto error = ReadOption(call.options[n], view, has_scale)) return error;
  }
  if (!has_scale) return Invalid("option scale is missing");
  return std::nullopt;
}

std::optional<DType> DTypeOf(const DLDataType& type) {
  if (type.lanes != 1) return std::nullopt;
  const auto is = [&](uint8_t code, uint8_t bits) {
    return type.code == code && type.bits == bits;
  };
  if (is(kDLFloat, 32)) return DType::kF32;
  if (is(kDLFloat, 64)) return DType::kF64;
  if (is(kDLFloat, 16)) return DType::kF16;
  if (is(kDLBfloat, 16)) return DType::kBF16;
  if (is(kDLUInt, 8)) return DType::kBool;
  if (is(kDLInt, 64)) return DType::kI64;
  return std::nullopt;
}

// Bytes of an element; spelled out here so that the glue needs no code of impl/attention.
size_t AlignmentOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
      return 1;
  }
  return 1;
}

// Everything but the extents' meaning: device, rank, type, strides, pointer.
Error CheckStorage(const char* name, const DLTensor& tensor, int min_rank, int max_rank,
                   DType dtype) {
  if (tensor.device.device_type != kDLCPU) return Unsupported("{} is not in CPU memory", name);
  if (tensor.ndim < min_rank || tensor.ndim > max_rank) {
    return Invalid("{} has rank {}, expected {}", name, tensor.ndim,
                   min_rank == max_rank ? std::to_string(min_rank)
                                        : fmt::format("{} to {}", min_rank, max_rank));
  }
  if (tensor.shape == nullptr || tensor.strides == nullptr) {
    return Invalid("{} has no {}", name, tensor.shape == nullptr ? "shape" : "strides");
  }
  if (DTypeOf(tensor.dtype) != dtype) return Invalid("{} has the wrong element type", name);
  bool has_elements = true;
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    const int64_t extent = tensor.shape[axis];
    if (extent < 0 || extent > kMaxPosition) return Invalid("{} has an extent of {}", name, extent);
    if (tensor.strides[axis] < 0) return Unsupported("{} has a negative stride", name);
    has_elements = has_elements && extent != 0;
  }
  if (!has_elements) return std::nullopt;
  if (tensor.data == nullptr) return Invalid("{} has elements but no data", name);
  if ((reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset) % AlignmentOf(dtype) != 0) {
    return Invalid("{} is not aligned to its element type", name);
  }
  return std::nullopt;
}

void* DataOf(const DLTensor& tensor) {
  if (tensor.data == nullptr) return nullptr;
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

// Views a tensor whose axes are the leading ones of `shape`; trailing extents of `shape` are
// then 1.
Error Bind(const char* name, const DLTensor& tensor, int rank, const Shape4& shape, DType dtype,
           TensorView& view) {
  if (auto error = CheckStorage(name, tensor, rank, rank, dtype)) return error;
  for (int axis = 0; axis < rank; ++axis) {
    if (tensor.shape[axis] != shape[static_cast<size_t>(axis)]) {
      return Invalid("{} has shape [{}], expected [{}]", name,
                     fmt::join(tensor.shape, tensor.shape + rank, ", "),
                     fmt::join(shape.begin(), shape.begin() + rank, ", "));
    }
    view.strides[static_cast<size_t>(axis)] = tensor.strides[axis];
  }
  view.data = DataOf(tensor);
  view.shape = shape;
  return std::nullopt;
}

// Views a tensor of rank 2 to 4 that broadcasts from the right to `shape`.
Error BindBroadcast(const char* name, const DLTensor* tensor, const Shape4& shape, DType dtype,
                    std::optional<TensorView>& target) {
  if (tensor == nullptr) return std::nullopt;
  if (auto error = CheckStorage(name, *tensor, 2, 4, dtype)) return error;
  TensorView view;
  view.data = DataOf(*tensor);
  view.shape = shape;
  const int missing = 4 - tensor->ndim;  // leading axes that the tensor does not carry
  for (int axis = 0; axis < tensor->ndim; ++axis) {
    const auto full_axis = static_cast<size_t>(axis + missing);
    const int64_t extent = tensor->shape[axis];
    if (extent != 1 && extent != shape[full_axis]) {
      return Invalid("{} has shape [{}], which does not broadcast to [{}]", name,
                     fmt::join(tensor->shape, tensor->shape + tensor->ndim, ", "),
                     fmt::join(shape, ", "));
    }
    view.strides[full_axis] = extent == 1 ? 0 : tensor->strides[axis];
  }
  target = view;
  return std::nullopt;
}

Error BindOptional(const char* name, const DLTensor* tensor, int rank, const Shape4& shape,
                   DType dtype, std::optional<TensorView>& target) {
  if (tensor == nullptr) return std::nullopt;
  return Bind(name, *tensor, rank, shape, dtype, target.emplace());
}

// Copies an int64 tensor [batch] whose entries must lie in low .. high.
Error ReadIntegers(const char* name, const DLTensor* tensor, int64_t batch, int64_t low,
                   int64_t high, std::optional<std::vector<int64_t>>& target) {
  if (tensor == nullptr) return std::nullopt;
  TensorView view;
  if (auto error = Bind(name, *tensor, 1, {batch, 1, 1, 1}, DType::kI64, view)) return error;
  target.emplace();
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t value = view.At<int64_t>(b, 0, 0, 0);
    if (value < low || value > high) {
      return Invalid("{}[{}] = {} is outside {}..{}", name, b, value, low, high);
    }
    target->push_back(value);
  }
  return std::nullopt;
}

// Takes the element type and all sizes from q, k and v.
Error ReadSizes(const Arguments& arguments, CallView& view) {
  const std::optional<DType> dtype = DTypeOf(arguments.q->dtype);
  if (!dtype || *dtype == DType::kBool || *dtype == DType::kI64) {
    return Unsupported("q has an element type that is not offered");
  }
  view.dtype = *dtype;
  for (const auto& [name, tensor] :
       {std::pair{"q", arguments.q}, std::pair{"k", arguments.k}, std::pair{"v", arguments.v}}) {
    if (auto error = CheckStorage(name, *tensor, 4, 4, view.dtype)) return error;
  }
  view.batch = arguments.q->shape[0];
  view.q_heads = arguments.q->shape[1];
  view.q_len = arguments.q->shape[2];
  view.head_dim = arguments.q->shape[3];
  view.kv_heads = arguments.k->shape[1];
  view.kv_len = arguments.k->shape[2];
  view.value_dim = arguments.v->shape[3];
  if (view.kv_heads == 0 ? view.q_heads != 0 : view.q_heads % view.kv_heads != 0) {
    return Invalid("kv_heads = {} does not divide q_heads = {}", view.kv_heads, view.q_heads);
  }
  return std::nullopt;
}

Error BindInputs(const Arguments& arguments, CallView& view) {
  const Shape4 q_shape{view.batch, view.q_heads, view.q_len, view.head_dim};
  const Shape4 k_shape{view.batch, view.kv_heads, view.kv_len, view.head_dim};
  const Shape4 v_shape{view.batch, view.kv_heads, view.kv_len, view.value_dim};
  const Shape4 plane{view.batch, view.q_heads, view.q_len, view.kv_len};
  if (auto error = Bind("q", *arguments.q, 4, q_shape, view.dtype, view.q)) return error;
  if (auto error = Bind("k", *arguments.k, 4, k_shape, view.dtype, view.k)) return error;
  if (auto error = Bind("v", *arguments.v, 4, v_shape, view.dtype, view.v)) return error;
  if (auto error = BindBroadcast("mask", arguments.mask, plane, DType::kBool, view.mask)) {
    return error;
  }
  if (auto error = BindBroadcast("bias", arguments.bias, plane, view.dtype, view.bias)) {
    return error;
  }
  if (auto error = ReadIntegers("key_lengths", arguments.key_lengths, view.batch, 0, view.kv_len,
                                view.key_lengths)) {
    return error;
  }
  return ReadIntegers("diagonal_offset", arguments.diagonal_offset, view.batch, -kMaxPosition,
                      kMaxPosition, view.diagonal_offset);
}

Error BindOutputs(const Arguments& arguments, CallView& view) {
  const Shape4 out_shape{view.batch, view.q_heads, view.q_len, view.value_dim};
  const Shape4 lse_shape{view.batch, view.q_heads, view.q_len, 1};
  const Shape4 plane{view.batch, view.q_heads, view.q_len, view.kv_len};
  const DType lse_dtype = view.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (auto error = Bind("out", *arguments.out, 4, out_shape, view.dtype, view.out)) return error;
  if (auto error = BindOptional("lse", arguments.lse, 3, lse_shape, lse_dtype, view.lse)) {
    return error;
  }
  return BindOptional("weights", arguments.weights, 4, plane, view.dtype, view.weights);
}

}  // namespace

tl::expected<CallView, CallError> ParseCall(const attest_call& call) {
  if (call.struct_size < sizeof(attest_call)) {
    return tl::unexpected(
        Invalid("struct_size = {} is below {}", call.struct_size, sizeof(attest_call)));
  }
  Arguments arguments;
  CallView view;
  if (auto error = CollectArguments(call, arguments)) return tl::unexpected(*error);
  if (auto error = ReadOptions(call, view)) return tl::unexpected(*error);
  if (auto error = ReadSizes(arguments, view)) return tl::unexpected(*error);
  if (auto error = BindInputs(arguments, view)) return tl::unexpected(*error);
  if (auto error = BindOutputs(arguments, view)) return tl::unexpected(*error);
  return view;
}

}  // namespace attest
