#include "impl/abi/call_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <variant>

namespace attest::call_parts {
namespace {

struct RoleName {
  int32_t role;
  const char* name;
  const DLTensor* Arguments::*slot;
  bool required = false;
};

constexpr RoleName kRoles[] = {
    {ATTEST_ROLE_Q, "q", &Arguments::q, true},
    {ATTEST_ROLE_K, "k", &Arguments::k, true},
    {ATTEST_ROLE_V, "v", &Arguments::v, true},
    {ATTEST_ROLE_MASK, "mask", &Arguments::mask},
    {ATTEST_ROLE_BIAS, "bias", &Arguments::bias},
    {ATTEST_ROLE_KEY_LENGTHS, "key_lengths", &Arguments::key_lengths},
    {ATTEST_ROLE_QUERY_LENGTHS, "query_lengths", &Arguments::query_lengths},
    {ATTEST_ROLE_CU_KEY_LENGTHS, "cu_key_lengths", &Arguments::cu_key_lengths},
    {ATTEST_ROLE_CU_QUERY_LENGTHS, "cu_query_lengths", &Arguments::cu_query_lengths},
    {ATTEST_ROLE_DIAGONAL_OFFSET, "diagonal_offset", &Arguments::diagonal_offset},
    {ATTEST_ROLE_DOCUMENT_IDS, "document_ids", &Arguments::document_ids},
    {ATTEST_ROLE_PREFIX_LENGTHS, "prefix_lengths", &Arguments::prefix_lengths},
    {ATTEST_ROLE_BLOCK_MASK, "block_mask", &Arguments::block_mask},
    {ATTEST_ROLE_SINKS, "sinks", &Arguments::sinks},
    {ATTEST_ROLE_ALIBI_SLOPES, "alibi_slopes", &Arguments::alibi_slopes},
    {ATTEST_ROLE_DROPOUT_MASK, "dropout_mask", &Arguments::dropout_mask},
    {ATTEST_ROLE_PAST_K, "past_k", &Arguments::past_k},
    {ATTEST_ROLE_PAST_V, "past_v", &Arguments::past_v},
    {ATTEST_ROLE_PAGE_TABLE, "page_table", &Arguments::page_table},
    {ATTEST_ROLE_Q_SCALE, "q_scale", &Arguments::q_scale},
    {ATTEST_ROLE_K_SCALE, "k_scale", &Arguments::k_scale},
    {ATTEST_ROLE_V_SCALE, "v_scale", &Arguments::v_scale},
    {ATTEST_ROLE_KEY_DOCUMENT_IDS, "key_document_ids", &Arguments::key_document_ids},
    {ATTEST_ROLE_RING_START, "ring_start", &Arguments::ring_start},
    {ATTEST_ROLE_OUT, "out", &Arguments::out, true},
    {ATTEST_ROLE_LSE, "lse", &Arguments::lse},
    {ATTEST_ROLE_WEIGHTS, "weights", &Arguments::weights},
    {ATTEST_ROLE_SCORES, "scores", &Arguments::scores},
    {ATTEST_ROLE_PRESENT_K, "present_k", &Arguments::present_k},
    {ATTEST_ROLE_PRESENT_V, "present_v", &Arguments::present_v},
    {ATTEST_ROLE_DOUT, "dout", &Arguments::dout},
    {ATTEST_ROLE_DQ, "dq", &Arguments::dq},
    {ATTEST_ROLE_DK, "dk", &Arguments::dk},
    {ATTEST_ROLE_DV, "dv", &Arguments::dv},
    {ATTEST_ROLE_DBIAS, "dbias", &Arguments::dbias},
    {ATTEST_ROLE_DSINK, "dsink", &Arguments::dsink},
};

struct OptionName {
  int32_t id;
  const char* name;
  std::variant<std::optional<double> Options::*, std::optional<int64_t> Options::*> slot;
};

constexpr OptionName kOptions[] = {
    {ATTEST_OPTION_SCALE, "scale", &Options::scale},
    {ATTEST_OPTION_CAUSAL, "causal", &Options::causal},
    {ATTEST_OPTION_WINDOW_LEFT, "window_left", &Options::window_left},
    {ATTEST_OPTION_WINDOW_RIGHT, "window_right", &Options::window_right},
    {ATTEST_OPTION_SOFTCAP, "softcap", &Options::softcap},
    {ATTEST_OPTION_DROPOUT, "dropout", &Options::dropout},
    {ATTEST_OPTION_BLOCK_Q, "block_q", &Options::block_q},
    {ATTEST_OPTION_BLOCK_K, "block_k", &Options::block_k},
    {ATTEST_OPTION_SCORES, "scores", &Options::scores},
    {ATTEST_OPTION_FP8, "fp8", &Options::fp8},
};

Error ReadOption(const attest_option& option, Options& options) {
  const auto* known = std::find_if(std::begin(kOptions), std::end(kOptions),
                                   [&](const OptionName& name) { return name.id == option.id; });
  if (known == std::end(kOptions)) return Unsupported("option {} is not offered", option.id);
  if (const auto* slot = std::get_if<std::optional<double> Options::*>(&known->slot)) {
    if (option.is_float != 1) return Invalid("option {} must be a float", known->name);
    options.** slot = option.value.f;
    return std::nullopt;
  }
  if (option.is_float != 0) return Invalid("option {} must be an integer", known->name);
  options.*std::get<std::optional<int64_t> Options::*>(known->slot) = option.value.i;
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

void* DataOf(const DLTensor& tensor) {
  if (tensor.data == nullptr) return nullptr;
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

std::string ShapeText(const DLTensor& tensor) {
  return fmt::format("{}", fmt::join(tensor.shape, tensor.shape + tensor.ndim, ", "));
}

}  // namespace

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

Error CollectOptions(const attest_call& call, Options& options) {
  if (call.num_options != 0 && call.options == nullptr) {
    return Invalid("num_options is not 0 but options is null");
  }
  for (uint32_t n = 0; n < call.num_options; ++n) {
    for (uint32_t earlier = 0; earlier < n; ++earlier) {
      if (call.options[earlier].id == call.options[n].id) {
        return Invalid("option {} is given twice", call.options[n].id);
      }
    }
    if (auto error = ReadOption(call.options[n], options)) return error;
  }
  if (!options.scale) return Invalid("option scale is missing");
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

Error Bind(const char* name, const DLTensor& tensor, int rank, const Shape4& shape, DType dtype,
           TensorView& view) {
  if (auto error = CheckStorage(name, tensor, rank, rank, dtype)) return error;
  for (int axis = 0; axis < rank; ++axis) {
    if (tensor.shape[axis] != shape[static_cast<size_t>(axis)]) {
      return Invalid("{} has shape [{}], expected [{}]", name, ShapeText(tensor),
                     fmt::join(shape.begin(), shape.begin() + rank, ", "));
    }
    view.strides[static_cast<size_t>(axis)] = tensor.strides[axis];
  }
  view.data = DataOf(tensor);
  view.shape = shape;
  return std::nullopt;
}

Error BindOptional(const char* name, const DLTensor* tensor, int rank, const Shape4& shape,
                   DType dtype, std::optional<TensorView>& target) {
  if (tensor == nullptr) return std::nullopt;
  return Bind(name, *tensor, rank, shape, dtype, target.emplace());
}

Error BindBroadcast(const char* name, const DLTensor& tensor, int min_rank, const Shape4& shape,
                    DType dtype, TensorView& view) {
  if (auto error = CheckStorage(name, tensor, min_rank, 4, dtype)) return error;
  view.data = DataOf(tensor);
  view.shape = shape;
  const int missing = 4 - tensor.ndim;  // leading axes that the tensor does not carry
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    const auto full_axis = static_cast<size_t>(axis + missing);
    const int64_t extent = tensor.shape[axis];
    if (extent != 1 && extent != shape[full_axis]) {
      return Invalid("{} has shape [{}], which does not broadcast to [{}]", name, ShapeText(tensor),
                     fmt::join(shape, ", "));
    }
    view.strides[full_axis] = extent == 1 ? 0 : tensor.strides[axis];
  }
  return std::nullopt;
}

Error ReadIntegers(const char* name, const DLTensor& tensor, int rank, int64_t rows,
                   int64_t columns, int64_t low, int64_t high, std::vector<int64_t>& target) {
  TensorView view;
  if (auto error = Bind(name, tensor, rank, {rows, columns, 1, 1}, DType::kI64, view)) {
    return error;
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t value = view.At<int64_t>(row, column, 0, 0);
      if (value < low || value > high) {
        return Invalid("{}[{}] = {} is outside {}..{}", name,
                       rank == 1 ? std::to_string(row) : fmt::format("{}, {}", row, column), value,
                       low, high);
      }
      target.push_back(value);
    }
  }
  return std::nullopt;
}

Error ReadPerItem(const char* name, const DLTensor* tensor, int64_t batch, int64_t low,
                  int64_t high, std::optional<std::vector<int64_t>>& target) {
  if (tensor == nullptr) return std::nullopt;
  return ReadIntegers(name, *tensor, /*rank=*/1, batch, /*columns=*/1, low, high, target.emplace());
}

Error ReadFloats(const char* name, const DLTensor& tensor, int64_t count, DType dtype,
                 std::vector<double>& target) {
  TensorView view;
  if (auto error = Bind(name, tensor, /*rank=*/1, {count, 1, 1, 1}, dtype, view)) return error;
  for (int64_t n = 0; n < count; ++n) {
    target.push_back(dtype == DType::kF64 ? view.At<double>(n, 0, 0, 0)
                                          : view.At<float>(n, 0, 0, 0));
  }
  return std::nullopt;
}

}  // namespace attest::call_parts
