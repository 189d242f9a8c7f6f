// Arithmetic on strided tensors in memory: which bytes are elements, which are gaps, which element
// is nearest to a byte. The arena places tensors with it and the fault explanations name elements
// with it. Works on any rank up to kMaxRank and on every shape, empty ones included.
#ifndef ATTEST_HARNESS_SANDBOX_STRIDED_H_
#define ATTEST_HARNESS_SANDBOX_STRIDED_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/harness/sandbox/call.h"

namespace attest {

inline constexpr size_t kMaxRank = 8;

// Why a call cannot be placed in memory, as one phrase, or nullopt for a well-formed call. All
// other functions of this header demand a tensor that passed.
std::optional<std::string> WhyMalformed(const Call& call);

// Product of the extents; 1 for rank 0.
int64_t CountElements(const CallTensor& tensor);

// Bytes from the first byte of element 0 to the last byte of the last element; 0 when empty.
size_t SpanBytes(const CallTensor& tensor);

// True when the elements lie one behind the other, the last index running fastest, and nothing else in the image.
bool IsDense(const CallTensor& tensor);

// True when each byte of the image belongs to exactly one element.
bool IsGapless(const CallTensor& tensor);

// Calls visit(index, byte_offset) for every element, the last index running fastest.
template <typename Visitor>
void ForEachElement(const CallTensor& tensor, Visitor&& visit) {
  const size_t rank = tensor.shape.size();
  const auto size = static_cast<int64_t>(ByteSize(tensor.dtype));
  std::array<int64_t, kMaxRank> index{};
  int64_t offset = 0;
  for (int64_t left = CountElements(tensor); left > 0; --left) {
    visit(std::span<const int64_t>(index.data(), rank), static_cast<size_t>(offset * size));
    for (size_t d = rank; d-- > 0;) {
      offset += tensor.strides[d];
      if (++index[d] < tensor.shape[d]) break;
      offset -= index[d] * tensor.strides[d];
      index[d] = 0;
    }
  }
}

// The element whose bytes are nearest to byte `offset` of the image (which may be negative or
// beyond the end); the first of equals. Empty for a tensor without elements, and for rank 0.
std::vector<int64_t> NearestElement(const CallTensor& tensor, int64_t offset);

// True when an element's bytes contain byte `offset` of the image.
bool IsInsideElement(const CallTensor& tensor, int64_t offset);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_STRIDED_H_
