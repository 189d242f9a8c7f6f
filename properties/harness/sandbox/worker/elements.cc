#include "properties/harness/sandbox/worker/elements.h"

#include <cstdint>

namespace attest {

std::vector<std::byte> ElementsOf(const DLTensor& tensor) {
  const size_t size = tensor.dtype.bits / 8u;
  const auto* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  int64_t count = 1;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) count *= tensor.shape[axis];
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(count) * size);
  std::vector<int64_t> index(static_cast<size_t>(tensor.ndim), 0);
  for (int64_t offset = 0; count > 0; --count) {
    const std::byte* element = data + offset * static_cast<int64_t>(size);
    bytes.insert(bytes.end(), element, element + size);
    for (int32_t axis = tensor.ndim; axis-- > 0;) {
      int64_t& at = index[static_cast<size_t>(axis)];
      offset += tensor.strides[axis];
      if (++at < tensor.shape[axis]) break;
      offset -= at * tensor.strides[axis];
      at = 0;
    }
  }
  return bytes;
}

bool IsDense(const DLTensor& tensor) {
  int64_t due = 1;
  for (int32_t axis = tensor.ndim; axis-- > 0;) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != due) return false;
    due *= tensor.shape[axis];
  }
  return true;
}

}  // namespace attest
