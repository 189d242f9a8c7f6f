#include "impl/abi/testing/owned_tensor.h"

namespace attest {
namespace {

constexpr std::byte kFill{0xA5};

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

}  // namespace

OwnedTensor::OwnedTensor(const Shape4& shape, DirectLayout layout, DType dtype, ShownAxes axes)
    : shape_(shape), strides_(StridesOf(shape, layout)), dtype_(dtype) {
  int64_t elements = 1;
  for (size_t axis = 0; axis < 4; ++axis) elements += (shape_[axis] - 1) * strides_[axis];
  if (ElementCount(shape_) == 0) elements = 0;
  storage_.assign(static_cast<size_t>(elements) * ByteSize(dtype), kFill);
  tensor_.data = storage_.empty() ? nullptr : storage_.data();
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = axes.rank;
  tensor_.dtype = DLTypeOf(dtype);
  tensor_.shape = shape_.data() + axes.first;
  tensor_.strides = strides_.data() + axes.first;
}

std::byte* OwnedTensor::Element(const Shape4& at) {
  int64_t index = 0;
  for (size_t axis = 0; axis < 4; ++axis) index += at[axis] * strides_[axis];
  return storage_.data() + static_cast<size_t>(index) * ByteSize(dtype_);
}

}  // namespace attest
