#include "properties/harness/sandbox/strided.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

// 1 TiB: far above any call, far below where offsets could overflow.
constexpr int64_t kMaxSpan = int64_t{1} << 40;
// A slot begins at a page; no larger alignment can be given. 4096 is the smallest page there is.
constexpr int64_t kMaxAlignment = 4096;

bool IsPowerOfTwo(int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

// True when the last axis is the innermost, without gaps: the usual case.
bool IsRowMajor(const CallTensor& tensor) {
  int64_t dense = 1;
  for (size_t d = tensor.shape.size(); d-- > 0;) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != dense) return false;
    dense *= tensor.shape[d];
  }
  return true;
}

// The span in bytes, or nullopt where it (or the element count) passes kMaxSpan.
std::optional<int64_t> CheckedSpan(const CallTensor& tensor) {
  const auto size = static_cast<int64_t>(ByteSize(tensor.dtype));
  int64_t last = 0, count = 1;
  bool empty = false;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] == 0) empty = true;
    int64_t reach = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(tensor.shape[d], 1) - 1, tensor.strides[d],
                               &reach) ||
        __builtin_add_overflow(last, reach, &last) || last > kMaxSpan ||
        __builtin_mul_overflow(count, std::max<int64_t>(tensor.shape[d], 1), &count) ||
        count > kMaxSpan)
      return std::nullopt;
  }
  return empty ? 0 : (last + 1) * size;
}

std::optional<std::string> WhyMalformed(const CallTensor& tensor) {
  if (tensor.shape.size() != tensor.strides.size()) return "shape and strides differ in rank";
  if (tensor.shape.size() > kMaxRank) return fmt::format("rank above {}", kMaxRank);
  const auto is_negative = [](int64_t value) { return value < 0; };
  if (std::ranges::any_of(tensor.shape, is_negative)) return "negative extent";
  if (std::ranges::any_of(tensor.strides, is_negative)) return "negative stride";
  const auto span = CheckedSpan(tensor);
  if (!span) return "extent too large";
  if (static_cast<size_t>(*span) > tensor.image.size())
    return fmt::format("image of {} bytes, but shape and strides reach {}", tensor.image.size(),
                       *span);
  const size_t flags = tensor.may_stay_unwritten.size();
  if (flags != 0 && flags != static_cast<size_t>(CountElements(tensor)))
    return fmt::format("may_stay_unwritten has {} entries for {} elements", flags,
                       CountElements(tensor));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> WhyMalformed(const Call& call) {
  if (!IsPowerOfTwo(call.min_alignment) || call.min_alignment > kMaxAlignment)
    return fmt::format("min_alignment = {} is not a power of two from 1 to {}", call.min_alignment,
                       kMaxAlignment);
  for (const CallTensor& tensor : call.tensors)
    if (auto why = WhyMalformed(tensor)) return fmt::format("role {}: {}", tensor.role, *why);
  return std::nullopt;
}

int64_t CountElements(const CallTensor& tensor) {
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) {
    if (extent == 0) return 0;
    count *= extent;
  }
  return count;
}

size_t SpanBytes(const CallTensor& tensor) {
  return static_cast<size_t>(*CheckedSpan(tensor));
}

bool IsDense(const CallTensor& tensor) {
  return SpanBytes(tensor) == tensor.image.size() && (tensor.image.empty() || IsRowMajor(tensor));
}

bool IsGapless(const CallTensor& tensor) {
  if (SpanBytes(tensor) != tensor.image.size()) return false;
  if (IsDense(tensor)) return true;
  std::vector<std::pair<int64_t, int64_t>> dims;  // (stride, extent)
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] != 1) dims.emplace_back(tensor.strides[d], tensor.shape[d]);
  }
  std::ranges::sort(dims);
  int64_t dense = 1;
  for (const auto& [stride, extent] : dims) {
    if (stride != dense) return false;
    dense *= extent;
  }
  return true;
}

std::vector<int64_t> NearestElement(const CallTensor& tensor, int64_t offset) {
  const auto size = static_cast<int64_t>(ByteSize(tensor.dtype));
  int64_t best = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> nearest;
  ForEachElement(tensor, [&](std::span<const int64_t> index, size_t start) {
    const auto first = static_cast<int64_t>(start);
    const int64_t away = offset < first           ? first - offset
                         : offset >= first + size ? offset - (first + size - 1)
                                                  : 0;
    if (away >= best) return;
    best = away;
    nearest.assign(index.begin(), index.end());
  });
  return nearest;
}

bool IsInsideElement(const CallTensor& tensor, int64_t offset) {
  const auto size = static_cast<int64_t>(ByteSize(tensor.dtype));
  bool inside = false;
  ForEachElement(tensor, [&](std::span<const int64_t>, size_t start) {
    const auto first = static_cast<int64_t>(start);
    if (offset >= first && offset < first + size) inside = true;
  });
  return inside;
}

}  // namespace attest
