#include "properties/harness/lower/tensor_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "attest/kernel.h"

namespace attest {
namespace {

// Each part of a far tensor is a mapping of all of it.
constexpr size_t kMostFarBytes = size_t{1} << 20;

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// Stores `count` values at every `stride`-th element from `target` on.
void StoreRow(DType dtype, const double* values, int64_t count, double unit, std::byte* target,
              int64_t stride) {
  const auto step = static_cast<size_t>(stride) * ByteSize(dtype);
  if (dtype == DType::kF32 && unit == 1) {  // nearly all
    for (int64_t d = 0; d < count; ++d, target += step) {
      const auto value = static_cast<float>(values[d]);
      std::memcpy(target, &value, sizeof value);
    }
    return;
  }
  for (int64_t d = 0; d < count; ++d, target += step) StoreElement(dtype, target, values[d] / unit);
}

}  // namespace

QkvExtents QkvExtentsOf(const Problem& p) {
  return {p.q_heads + 2 * p.kv_heads, std::max(p.head_dim, p.value_dim)};
}

std::vector<int64_t> StridesOf(const Shape4& s, const Placing& placing) {
  switch (placing.layout) {
    case Layout::kBshd:
    case Layout::kFarRows:
      return {s[2] * s[1] * s[3], s[3], s[1] * s[3], 1};
    case Layout::kGapped: {
      const int64_t row = s[3] + 3, head = s[2] * row + 5;
      return {s[1] * head + 7, head, row, 1};
    }
    case Layout::kTransposed:
      return {s[1] * s[3] * s[2], s[3] * s[2], 1, s[2]};
    case Layout::kPackedQkv: {
      const int64_t row = placing.qkv.heads * placing.qkv.dim;
      return {s[2] * row, placing.qkv.dim, row, 1};
    }
    case Layout::kSharedHead:
      return {s[2] * s[3], 0, s[3], 1};
    case Layout::kBhsd:
    case Layout::kFarHeads:
      break;
  }
  return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
}

CallTensor PlacedTensorOf(int32_t role, DType dtype, const Shape4& shape, const Placing& placing,
                          uint8_t fill) {
  CallTensor t =
      MakeTensor(role, dtype, {shape.begin(), shape.end()}, StridesOf(shape, placing), fill);
  if (!IsFar(placing.layout)) return t;
  const size_t inner = placing.layout == Layout::kFarHeads ? 1 : 2;  // the far axis after the batch
  const int64_t parts = shape[0] * shape[inner];
  if (parts <= 1 || parts > kMaxFarParts || t.image.empty() || t.image.size() > kMostFarBytes)
    return t;
  const auto gap = static_cast<int64_t>(kFarGapBytes / ByteSize(dtype));
  t.far_parts = parts;
  t.far_strides = t.strides;
  t.far_strides[0] += shape[inner] * gap;
  t.far_strides[inner] += gap;
  return t;
}

int64_t ExtentOf(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t extent = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return 0;
    extent += (shape[axis] - 1) * strides[axis];
  }
  return extent;
}

CallTensor MakeTensor(int32_t role, DType dtype, std::vector<int64_t> shape,
                      std::vector<int64_t> strides, uint8_t fill) {
  CallTensor t;
  t.role = role;
  t.dtype = dtype;
  t.is_output = role >= ATTEST_ROLE_OUT && role != ATTEST_ROLE_DOUT;
  const auto bytes = static_cast<size_t>(ExtentOf(shape, strides)) * ByteSize(dtype);
  t.shape = std::move(shape);
  t.strides = std::move(strides);
  t.image.assign(bytes, std::byte{fill});
  return t;
}

CallTensor MakeDense(int32_t role, DType dtype, std::vector<int64_t> shape, uint8_t fill) {
  std::vector<int64_t> strides = DenseStrides(shape);
  return MakeTensor(role, dtype, std::move(shape), std::move(strides), fill);
}

CallTensor FloatTensor(int32_t role, DType dtype, const Array& array, const Placing& placing,
                       double unit, uint8_t fill) {
  const Shape4& s = array.shape;
  CallTensor t = PlacedTensorOf(role, dtype, s, placing, fill);
  const size_t size = ByteSize(dtype);
  const double* row = array.values.data();
  for (int64_t a = 0; a < s[0]; ++a)
    for (int64_t b = 0; b < s[1]; ++b)
      for (int64_t i = 0; i < s[2] && s[3] > 0; ++i, row += s[3]) {
        const int64_t at = a * t.strides[0] + b * t.strides[1] + i * t.strides[2];
        StoreRow(dtype, row, s[3], unit, t.image.data() + static_cast<size_t>(at) * size,
                 t.strides[3]);
      }
  return t;
}

CallTensor FloatList(int32_t role, DType dtype, const std::vector<double>& values, uint8_t fill) {
  CallTensor t = MakeDense(role, dtype, {static_cast<int64_t>(values.size())}, fill);
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(dtype, t.image.data() + i * ByteSize(dtype), values[i]);
  }
  return t;
}

CallTensor IntegerTensor(int32_t role, std::vector<int64_t> shape,
                         const std::vector<int64_t>& values, uint8_t fill) {
  CallTensor t = MakeDense(role, DType::kI64, std::move(shape), fill);
  if (!t.image.empty()) std::memcpy(t.image.data(), values.data(), t.image.size());
  return t;
}

CallTensor BitTensor(int32_t role, const BitPlane& plane, uint8_t flip, uint8_t fill) {
  CallTensor t =
      MakeDense(role, DType::kBool, {plane.shape.end() - plane.rank, plane.shape.end()}, fill);
  for (size_t i = 0; i < plane.bits.size(); ++i) t.image[i] = std::byte(plane.bits[i] ^ flip);
  return t;
}

}  // namespace attest
