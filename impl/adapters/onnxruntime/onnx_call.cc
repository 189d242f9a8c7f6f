#include "impl/adapters/onnxruntime/onnx_call.h"

#include <cstring>
#include <utility>

namespace attest::ort {
namespace {

// Whether a tensor lies as row-major memory with these strides. Extents of 1 may have any stride, and
// so may everything in an empty tensor.
bool HasStrides(const TensorView& view, const Shape4& strides) {
  for (size_t axis = 0; axis < 4; ++axis) {
    if (view.shape[axis] == 0) return true;
  }
  for (size_t axis = 0; axis < 4; ++axis) {
    if (view.shape[axis] != 1 && view.strides[axis] != strides[axis]) return false;
  }
  return true;
}

}  // namespace

std::optional<ElementType> ElementTypeOf(DType type) {
  if (type == DType::kF32) return ElementType::kFloat;
  if (type == DType::kF16) return ElementType::kFloat16;
  return std::nullopt;
}

Tensor MakeTensor(const char* name, ElementType type, std::vector<int64_t> shape, void* data) {
  Tensor tensor{name, type, std::move(shape), data, ByteSize(type)};
  for (const int64_t extent : tensor.shape) tensor.bytes *= static_cast<size_t>(extent);
  return tensor;
}

Tensor MakeCopy(const char* name, ElementType type, std::vector<int64_t> shape, OnnxCall* call) {
  Tensor tensor = MakeTensor(name, type, std::move(shape), nullptr);
  tensor.data = call->copies.emplace_back(tensor.bytes).data();
  return tensor;
}

tl::expected<Tensor, CallError> AsHidden(const char* name, ElementType type,
                                         const TensorView& view) {
  const auto& [batch, heads, len, dim] = view.shape;
  if (!HasStrides(view, {len * heads * dim, dim, heads * dim, 1})) {
    return tl::unexpected(
        CallError{ATTEST_UNSUPPORTED, std::string(name) + ": heads do not lie side by side"});
  }
  return MakeTensor(name, type, {batch, len, heads * dim}, view.data);
}

Tensor AsDense(const char* name, ElementType type, const TensorView& view, int64_t columns,
               OnnxCall* call) {
  const auto& [batch, heads, rows, all] = view.shape;
  if (columns == all && HasStrides(view, {heads * rows * all, rows * all, all, 1})) {
    return MakeTensor(name, type, {batch, heads, rows, all}, view.data);
  }
  Tensor copy = MakeCopy(name, type, {batch, heads, rows, columns}, call);
  const size_t size = ByteSize(type);
  auto* target = static_cast<std::byte*>(copy.data);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j, target += size) {
          const int64_t at =
              b * view.strides[0] + h * view.strides[1] + i * view.strides[2] + j * view.strides[3];
          std::memcpy(target, static_cast<std::byte*>(view.data) + static_cast<size_t>(at) * size,
                      size);
        }
  return copy;
}

}  // namespace attest::ort
