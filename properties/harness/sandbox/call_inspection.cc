#include "properties/harness/sandbox/call_inspection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <attest/kernel.h>
#include <fmt/format.h>

#include "properties/harness/sandbox/strided.h"

namespace attest {
namespace {

// The axes of a tensor by role, last axis last; lower ranks drop leading ones.
std::vector<const char*> AxisNames(int32_t role) {
  switch (role) {
    case ATTEST_ROLE_K:
    case ATTEST_ROLE_V:
      return {"batch", "head", "key", "lane"};
    case ATTEST_ROLE_MASK:
    case ATTEST_ROLE_BIAS:
    case ATTEST_ROLE_WEIGHTS:
      return {"batch", "head", "query", "key"};
    case ATTEST_ROLE_LSE:
      return {"batch", "head", "query"};
    case ATTEST_ROLE_KEY_LENGTHS:
    case ATTEST_ROLE_DIAGONAL_OFFSET:
      return {"batch"};
    default:
      return {"batch", "head", "query", "lane"};
  }
}

Fault MakeFault(FaultKind kind, int32_t role, std::vector<int64_t> index, int64_t distance,
                std::string detail) {
  return {kind, role, std::move(index), distance, std::move(detail)};
}

std::optional<Fault> FindChangedInput(const Arena& arena, const PlacedTensor& placed) {
  const CallTensor& tensor = *placed.tensor;
  const std::byte* now = arena.At(placed.offset);
  if (std::memcmp(now, tensor.image.data(), tensor.image.size()) == 0) return std::nullopt;
  const auto differs = std::mismatch(tensor.image.begin(), tensor.image.end(), now);
  std::vector<int64_t> index = NearestElement(tensor, differs.first - tensor.image.begin());
  std::string detail = fmt::format("changed its input {}", DescribeElement(tensor.role, index));
  return MakeFault(FaultKind::kInputChanged, tensor.role, std::move(index), 0, std::move(detail));
}

// The first byte from `begin` up to `end` of the arena file that is not `fill`; `end` if none.
uint64_t FirstOther(const Arena& arena, uint64_t begin, uint64_t end, std::byte fill) {
  const std::byte* first = arena.At(begin);
  const std::byte* last = arena.At(end);
  return begin + static_cast<uint64_t>(
                     std::find_if(first, last, [=](std::byte b) { return b != fill; }) - first);
}

Fault StrayWrite(const CallTensor& tensor, int64_t offset) {
  const auto end = static_cast<int64_t>(tensor.image.size());
  const auto element_size = static_cast<int64_t>(ByteSize(tensor.dtype));
  std::vector<int64_t> index = NearestElement(tensor, offset);
  const std::string element = DescribeElement(tensor.role, index);
  const int64_t distance = offset < 0 ? offset : offset >= end ? offset - end + element_size : 0;
  std::string detail = distance > 0 ? fmt::format("wrote {} bytes past the end of {}, beyond {}",
                                                  distance, RoleName(tensor.role), element)
                       : distance < 0
                           ? fmt::format("wrote {} bytes before the beginning of {}, before {}",
                                         -distance, RoleName(tensor.role), element)
                           : fmt::format("wrote into a gap between elements of {}, beside {}",
                                         RoleName(tensor.role), element);
  return MakeFault(FaultKind::kStrayWrite, tensor.role, std::move(index), distance,
                   std::move(detail));
}

std::optional<Fault> FindStrayWrite(const Arena& arena, const PlacedTensor& placed,
                                    std::byte fill) {
  const CallTensor& tensor = *placed.tensor;
  const Slot& slot = arena.slots()[placed.slot];
  const uint64_t end = placed.offset + tensor.image.size();
  const uint64_t first =
      std::max(slot.offset, placed.offset - std::min(placed.offset, kMarginBytes));
  const uint64_t last = std::min(slot.offset + slot.bytes, end + kMarginBytes);
  const auto offset_of = [&](uint64_t at) {
    return static_cast<int64_t>(at) - static_cast<int64_t>(placed.offset);
  };
  if (const uint64_t at = FirstOther(arena, end, last, fill); at != last) {
    return StrayWrite(tensor, offset_of(at));
  }
  if (const uint64_t at = FirstOther(arena, first, placed.offset, fill); at != placed.offset) {
    return StrayWrite(tensor, offset_of(at));
  }
  if (IsGapless(tensor)) return std::nullopt;
  const std::vector<bool> covered = ElementBytes(tensor);
  for (size_t byte = 0; byte < covered.size(); ++byte) {
    if (!covered[byte] && *arena.At(placed.offset + byte) != fill) {
      return StrayWrite(tensor, static_cast<int64_t>(byte));
    }
  }
  return std::nullopt;
}

}  // namespace

std::string RoleName(int32_t role) {
  static constexpr std::pair<int32_t, const char*> kNames[] = {
      {ATTEST_ROLE_Q, "q"},
      {ATTEST_ROLE_K, "k"},
      {ATTEST_ROLE_V, "v"},
      {ATTEST_ROLE_MASK, "mask"},
      {ATTEST_ROLE_BIAS, "bias"},
      {ATTEST_ROLE_KEY_LENGTHS, "key_lengths"},
      {ATTEST_ROLE_DIAGONAL_OFFSET, "diagonal_offset"},
      {ATTEST_ROLE_OUT, "out"},
      {ATTEST_ROLE_LSE, "lse"},
      {ATTEST_ROLE_WEIGHTS, "weights"}};
  for (const auto& [known, name] : kNames) {
    if (known == role) return name;
  }
  return fmt::format("role {}", role);
}

std::string DescribeElement(int32_t role, const std::vector<int64_t>& index) {
  const std::vector<const char*> names = AxisNames(role);
  if (index.empty() || index.size() > names.size()) return RoleName(role);
  std::string text = RoleName(role) + "[";
  const size_t skipped = names.size() - index.size();
  for (size_t axis = 0; axis < index.size(); ++axis) {
    text += fmt::format("{}{} {}", axis == 0 ? "" : ", ", names[skipped + axis], index[axis]);
  }
  return text + "]";
}

std::optional<Fault> FindStrayChange(const Arena& arena, const PlacedCall& placed) {
  for (const PlacedTensor& tensor : placed.tensors) {
    auto fault = tensor.tensor->is_output ? FindStrayWrite(arena, tensor, placed.fill)
                                          : FindChangedInput(arena, tensor);
    if (fault) return fault;
  }
  return std::nullopt;
}

std::vector<std::vector<std::byte>> TakeOutputs(const Arena& arena, const PlacedCall& placed) {
  std::vector<std::vector<std::byte>> outputs;
  for (const PlacedTensor& tensor : placed.tensors) {
    if (!tensor.tensor->is_output) continue;
    const std::byte* first = arena.At(tensor.offset);
    outputs.emplace_back(first, first + tensor.tensor->image.size());
  }
  return outputs;
}

FilledElements FindFilled(const Arena& arena, const PlacedCall& placed) {
  FilledElements filled;
  for (const PlacedTensor& tensor : placed.tensors) {
    if (!tensor.tensor->is_output) continue;
    filled.emplace_back();
    const std::byte* base = arena.At(tensor.offset);
    const size_t size = ByteSize(tensor.tensor->dtype);
    size_t n = 0;
    ForEachElement(*tensor.tensor, [&](std::span<const int64_t>, size_t offset) {
      const std::byte* element = base + offset;
      if (std::all_of(element, element + size, [&](std::byte b) { return b == placed.fill; })) {
        filled.back().push_back(n);
      }
      ++n;
    });
  }
  return filled;
}

std::optional<Fault> FindUnwritten(const Call& call, const FilledElements& first,
                                   const FilledElements& second) {
  size_t output = 0;
  for (const CallTensor& tensor : call.tensors) {
    if (!tensor.is_output) continue;
    std::vector<size_t> both;
    std::ranges::set_intersection(first[output], second[output], std::back_inserter(both));
    ++output;
    if (both.empty()) continue;
    std::vector<int64_t> index;
    size_t n = 0;
    ForEachElement(tensor, [&](std::span<const int64_t> at, size_t) {
      if (n++ == both.front()) index.assign(at.begin(), at.end());
    });
    std::string detail = fmt::format("left {} of {} elements of {} unwritten, the first {}",
                                     both.size(), CountElements(tensor), RoleName(tensor.role),
                                     DescribeElement(tensor.role, index));
    return MakeFault(FaultKind::kUnwritten, tensor.role, std::move(index), 0, std::move(detail));
  }
  return std::nullopt;
}

}  // namespace attest
