#include "impl/abi/testing/direct_call.h"

#include <array>
#include <cstddef>
#include <deque>
#include <utility>

namespace attest {
namespace {

constexpr unsigned char kFill = 0xA5;

DLDataType DLTypeOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * ByteSize(dtype));
  switch (dtype) {
    case DType::kBF16:
      return {kDLBfloat, bits, 1};
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
      return {kDLUInt, bits, 1};
    case DType::kI64:
      return {kDLInt, bits, 1};
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
      break;
  }
  return {kDLFloat, bits, 1};
}

// Strides in elements of a tensor of `shape` laid out as asked.
Shape4 StridesOf(const Shape4& shape, DirectLayout layout) {
  const auto at_least_1 = [](int64_t extent) { return extent < 1 ? 1 : extent; };
  if (layout == DirectLayout::kBshd) {
    const int64_t heads = at_least_1(shape[1]);
    const int64_t len = at_least_1(shape[2]);
    const int64_t dim = at_least_1(shape[3]);
    return {len * heads * dim, dim, heads * dim, 1};
  }
  const int64_t gap = layout == DirectLayout::kGapped ? 1 : 0;
  Shape4 strides{0, 0, 0, 1 + gap};
  for (int axis = 2; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    strides[a] = strides[a + 1] * at_least_1(shape[a + 1]) + gap;
  }
  return strides;
}

// One tensor of a call with everything it points to. Never moved once a call refers to it.
struct OwnedTensor {
  Shape4 shape;
  Shape4 strides;
  DType dtype;
  std::vector<std::byte> storage;
  DLTensor tensor{};

  OwnedTensor(const Shape4& s, const Shape4& t, DType type, int first_axis, int rank)
      : shape(s), strides(t), dtype(type) {
    int64_t elements = 1;
    for (size_t axis = 0; axis < 4; ++axis) elements += (shape[axis] - 1) * strides[axis];
    if (ElementCount(shape) == 0) elements = 0;
    storage.assign(static_cast<size_t>(elements) * ByteSize(dtype), std::byte{kFill});
    tensor.data = storage.empty() ? nullptr : storage.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = rank;
    tensor.dtype = DLTypeOf(dtype);
    tensor.shape = shape.data() + first_axis;
    tensor.strides = strides.data() + first_axis;
  }
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;

  std::byte* Element(const Shape4& at) {
    int64_t index = 0;
    for (size_t axis = 0; axis < 4; ++axis) index += at[axis] * strides[axis];
    return storage.data() + static_cast<size_t>(index) * ByteSize(dtype);
  }
};

template <typename Visitor>
void ForEachIndex(const Shape4& shape, Visitor&& visit) {
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t c = 0; c < shape[2]; ++c)
        for (int64_t d = 0; d < shape[3]; ++d) visit(Shape4{a, b, c, d});
}

// The call of a problem, with its memory.
class DirectCall {
 public:
  DirectCall(const Problem& p, const Inputs& inputs, DirectLayout layout) : layout_(layout) {
    AddFloats(ATTEST_ROLE_Q, inputs.q, p.QShape(), p.dtype);
    AddFloats(ATTEST_ROLE_K, inputs.k, p.KShape(), p.dtype);
    AddFloats(ATTEST_ROLE_V, inputs.v, p.VShape(), p.dtype);
    if (p.mask) AddMask(*p.mask);
    if (p.bias) AddFloats(ATTEST_ROLE_BIAS, inputs.bias, p.bias->shape, p.dtype, p.bias->rank);
    if (p.key_lengths) AddIntegers(ATTEST_ROLE_KEY_LENGTHS, *p.key_lengths);
    if (!p.diagonal_offset.empty()) AddIntegers(ATTEST_ROLE_DIAGONAL_OFFSET, p.diagonal_offset);
    Add(ATTEST_ROLE_OUT, p.OutShape(), p.dtype);
    if (p.want_lse) Add(ATTEST_ROLE_LSE, p.LseShape(), p.LseDType(), /*first_axis=*/0, /*rank=*/3);
    if (p.want_weights) Add(ATTEST_ROLE_WEIGHTS, p.WeightsShape(), p.dtype);
    AddOptions(p);
  }

  DirectResult Run(const attest_kernel_table& table, void* kernel) {
    std::array<char, 256> message{};
    attest_call call{};
    call.struct_size = sizeof(call);
    call.num_options = static_cast<uint32_t>(options_.size());
    call.options = options_.data();
    call.num_arguments = static_cast<uint32_t>(arguments_.size());
    call.arguments = arguments_.data();
    call.message = message.data();
    call.message_size = message.size();
    DirectResult result;
    result.status = table.forward(kernel, &call);
    result.message = message.data();
    if (result.status != ATTEST_OK) return result;
    result.out = Read(ATTEST_ROLE_OUT);
    result.lse = Read(ATTEST_ROLE_LSE);
    result.weights = Read(ATTEST_ROLE_WEIGHTS);
    return result;
  }

 private:
  OwnedTensor& Add(int32_t role, const Shape4& shape, DType dtype, int first_axis = 0,
                   int rank = 4) {
    OwnedTensor& tensor =
        tensors_.emplace_back(shape, StridesOf(shape, layout_), dtype, first_axis, rank);
    arguments_.push_back({role, &tensor.tensor});
    return tensor;
  }

  void AddFloats(int32_t role, const Array& values, const Shape4& shape, DType dtype,
                 int rank = 4) {
    OwnedTensor& tensor = Add(role, shape, dtype, 4 - rank, rank);
    ForEachIndex(shape, [&](const Shape4& at) {
      StoreElement(dtype, tensor.Element(at), values.At(at[0], at[1], at[2], at[3]));
    });
  }

  void AddMask(const BitPlane& mask) {
    OwnedTensor& tensor = Add(ATTEST_ROLE_MASK, mask.shape, DType::kBool, 4 - mask.rank, mask.rank);
    ForEachIndex(mask.shape, [&](const Shape4& at) {
      *tensor.Element(at) = std::byte{mask.At(at[0], at[1], at[2], at[3])};
    });
  }

  void AddIntegers(int32_t role, const std::vector<int64_t>& values) {
    const Shape4 shape{static_cast<int64_t>(values.size()), 1, 1, 1};
    OwnedTensor& tensor = Add(role, shape, DType::kI64, /*first_axis=*/0, /*rank=*/1);
    for (size_t b = 0; b < values.size(); ++b) {
      auto* target = tensor.Element({static_cast<int64_t>(b), 0, 0, 0});
      *reinterpret_cast<int64_t*>(target) = values[b];
    }
  }

  void AddOptions(const Problem& p) {
    const auto add_integer = [&](int32_t id, int64_t value) {
      attest_option option{};
      option.id = id;
      option.value.i = value;
      options_.push_back(option);
    };
    attest_option scale{};
    scale.id = ATTEST_OPTION_SCALE;
    scale.is_float = 1;
    scale.value.f = p.EffectiveScale();
    options_.push_back(scale);
    if (p.causal) add_integer(ATTEST_OPTION_CAUSAL, 1);
    if (p.window.left) add_integer(ATTEST_OPTION_WINDOW_LEFT, *p.window.left);
    if (p.window.right) add_integer(ATTEST_OPTION_WINDOW_RIGHT, *p.window.right);
  }

  Array Read(int32_t role) {
    for (size_t n = 0; n < arguments_.size(); ++n) {
      if (arguments_[n].role != role) continue;
      OwnedTensor& tensor = tensors_[n];
      Array values(tensor.shape);
      ForEachIndex(tensor.shape, [&](const Shape4& at) {
        values.At(at[0], at[1], at[2], at[3]) = LoadElement(tensor.dtype, tensor.Element(at));
      });
      return values;
    }
    return {};
  }

  DirectLayout layout_;
  std::deque<OwnedTensor> tensors_;  // a deque never moves its elements
  std::vector<attest_argument> arguments_;
  std::vector<attest_option> options_;
};

}  // namespace

tl::expected<DirectKernel, std::string> DirectKernel::Create(
    const attest_kernel_table* table,
    const std::vector<std::pair<std::string, std::string>>& options) {
  std::vector<attest_string_pair> pairs;
  for (const auto& [key, value] : options) pairs.push_back({key.c_str(), value.c_str()});
  std::array<char, 256> message{};
  attest_create_info info{};
  info.struct_size = sizeof(info);
  info.num_options = static_cast<uint32_t>(pairs.size());
  info.options = pairs.data();
  info.message = message.data();
  info.message_size = message.size();
  void* kernel = nullptr;
  if (table->create(&info, &kernel) != ATTEST_OK) {
    return tl::unexpected<std::string>(message.data());
  }
  return DirectKernel(table, kernel);
}

DirectKernel::DirectKernel(DirectKernel&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)),
      kernel_(std::exchange(other.kernel_, nullptr)) {}

DirectKernel::~DirectKernel() {
  if (table_ != nullptr) table_->destroy(kernel_);
}

std::string DirectKernel::Contract() const {
  return table_->contract(kernel_);
}

DirectResult DirectKernel::Run(const Problem& problem, const Inputs& inputs,
                               DirectLayout layout) const {
  return DirectCall(problem, inputs, layout).Run(*table_, kernel_);
}

}  // namespace attest
