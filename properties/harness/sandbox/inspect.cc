#include "properties/harness/sandbox/inspect.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "properties/harness/sandbox/digest.h"
#include "properties/harness/sandbox/fault_words.h"
#include "properties/harness/sandbox/strided.h"

namespace attest {
namespace {

// True when all bytes equal `fill`. Compares the first ones with as many of fill, and the range with itself
// some bytes on: two memcmps. A step of a cache line spares the second unaligned reads.
bool IsFilled(std::span<const std::byte> bytes, std::byte fill) {
  constexpr size_t kStep = 64;
  if (bytes.empty()) return true;
  std::array<std::byte, kStep> filled;
  filled.fill(fill);
  const size_t step = std::min(bytes.size(), kStep);
  return std::memcmp(bytes.data(), filled.data(), step) == 0 &&
         std::memcmp(bytes.data(), bytes.data() + step, bytes.size() - step) == 0;
}

// The checked slack of a placed tensor: what Arena::Place filled.
struct Slack {
  std::span<const std::byte> before, after;
};

Slack SlackOf(const Arena& arena, const PlacedTensor& placed) {
  const SlackRange range = arena.SlackOf(placed);
  const uint64_t end = placed.offset + placed.tensor->image.size();
  return {{arena.At(range.first), placed.offset - range.first}, {arena.At(end), range.last - end}};
}

// The offset in the image of the slack byte nearest to the tensor that is not `fill`.
std::optional<int64_t> NearestChange(const Slack& slack, const CallTensor& tensor, std::byte fill) {
  const auto differs = [&](std::byte byte) { return byte != fill; };
  if (!IsFilled(slack.after, fill)) {
    const auto found = std::ranges::find_if(slack.after, differs);
    return static_cast<int64_t>(tensor.image.size()) + (found - slack.after.begin());
  }
  if (!IsFilled(slack.before, fill)) {
    const auto found = std::find_if(slack.before.rbegin(), slack.before.rend(), differs);
    return -1 - (found - slack.before.rbegin());
  }
  return std::nullopt;
}

std::optional<int64_t> ChangedByte(const std::vector<std::byte>& image, const std::byte* now) {
  if (image.empty() || std::memcmp(image.data(), now, image.size()) == 0) return std::nullopt;
  return std::mismatch(image.begin(), image.end(), now).first - image.begin();
}

std::optional<int64_t> ChangedGap(const Arena& arena, const PlacedTensor& placed, std::byte fill) {
  const CallTensor& tensor = *placed.tensor;
  if (IsGapless(tensor)) return std::nullopt;
  // What there must be: the elements, whatever they are, among bytes of fill.
  const std::byte* image = arena.At(placed.offset);
  thread_local std::vector<std::byte> due;
  due.assign(tensor.image.size(), fill);
  const size_t size = ByteSize(tensor.dtype);
  ForEachElement(tensor, [&](std::span<const int64_t>, size_t offset) {
    std::memcpy(&due[offset], image + offset, size);
  });
  return ChangedByte(due, image);
}

// Calls visit(CallTensor, image number) for each output of the call.
template <typename Visitor>
void ForEachOutput(const Call& call, Visitor&& visit) {
  size_t number = 0;
  for (const CallTensor& tensor : call.tensors)
    if (tensor.is_output) visit(tensor, number++);
}

bool ElementIsFill(const std::vector<std::byte>& image, size_t offset, size_t size,
                   std::byte fill) {
  return image[offset] == fill && IsFilled(std::span(image).subspan(offset, size), fill);
}

// Calls visit(index, byte offset) for each element that the kernel has to write.
template <typename Visitor>
void ForEachDueElement(const CallTensor& tensor, Visitor&& visit) {
  size_t flat = 0;
  ForEachElement(tensor, [&](std::span<const int64_t> index, size_t offset) {
    const bool is_due = tensor.may_stay_unwritten.empty() || tensor.may_stay_unwritten[flat] == 0;
    if (is_due) visit(index, offset);
    ++flat;
  });
}

// A gapless image holds an element of fill only where it holds the fill at all: memchr is the quick
// way to "no".
bool TensorHasFill(const CallTensor& tensor, const std::vector<std::byte>& image, std::byte fill) {
  if (image.empty() ||
      std::memchr(image.data(), std::to_integer<int>(fill), image.size()) == nullptr)
    return false;
  const size_t size = ByteSize(tensor.dtype);
  bool left = false;
  if (tensor.may_stay_unwritten.empty() && IsGapless(tensor)) {
    for (size_t offset = 0; offset < image.size() && !left; offset += size)
      left = ElementIsFill(image, offset, size, fill);
    return left;
  }
  ForEachDueElement(tensor, [&](std::span<const int64_t>, size_t offset) {
    left = left || ElementIsFill(image, offset, size, fill);
  });
  return left;
}

uint64_t DigestIn(const Arena& arena, uint64_t offset, uint64_t bytes) {
  return DigestOf({arena.At(offset), static_cast<size_t>(bytes)});
}

// Of the elements, as a worker takes it (crash_note.h).
uint64_t DigestOfElements(const Arena& arena, const PlacedTensor& placed) {
  const CallTensor& tensor = *placed.tensor;
  const std::byte* image = arena.At(placed.offset);
  if (IsDense(tensor)) return DigestOf({image, tensor.image.size()});
  const size_t size = ByteSize(tensor.dtype);
  thread_local std::vector<std::byte> elements;
  elements.clear();
  ForEachElement(tensor, [&](std::span<const int64_t>, size_t offset) {
    elements.insert(elements.end(), image + offset, image + offset + size);
  });
  return DigestOf(elements);
}

// Which element is not known.
Fault LateWriteTo(int32_t role) {
  return {FaultKind::kLateWrite,
          role,
          {},
          0,
          fmt::format("wrote to {} of a call before after that call had returned", RoleName(role))};
}

}  // namespace

std::optional<Fault> FindChangedInput(const Arena& arena, const PlacedCall& placed) {
  const std::byte poison{placed.call->poison};
  for (const PlacedTensor& input : placed.tensors) {
    const CallTensor& tensor = *input.tensor;
    if (tensor.is_output) continue;
    if (const auto change = ChangedByte(tensor.image, arena.At(input.offset)))
      return FaultAt(FaultKind::kInputChanged, "changed the input", tensor, *change);
    if (const auto change = NearestChange(SlackOf(arena, input), tensor, poison))
      return FaultAt(FaultKind::kStrayWrite, "wrote", tensor, *change);
  }
  return std::nullopt;
}

std::optional<Fault> FindStrayWrite(const Arena& arena, const PlacedCall& placed) {
  for (const PlacedTensor& output : placed.tensors) {
    if (!output.tensor->is_output) continue;
    auto change = ChangedGap(arena, output, placed.fill);
    if (!change) change = NearestChange(SlackOf(arena, output), *output.tensor, placed.fill);
    if (change) return FaultAt(FaultKind::kStrayWrite, "wrote", *output.tensor, *change);
  }
  return std::nullopt;
}

OutputImages CopyOutputs(const Arena& arena, const PlacedCall& placed) {
  OutputImages images;
  const auto is_output = [](const PlacedTensor& placed_tensor) {
    return placed_tensor.tensor->is_output;
  };
  images.reserve(static_cast<size_t>(std::ranges::count_if(placed.tensors, is_output)));
  for (const PlacedTensor& output : placed.tensors) {
    if (!is_output(output)) continue;
    const std::byte* image = arena.At(output.offset);
    images.emplace_back(image, image + output.tensor->image.size());
  }
  return images;
}

std::optional<Fault> FindSpoiled(const Arena& arena, const PlacedCall& placed, size_t* outputs) {
  std::optional<Fault> fault;
  for (const PlacedTensor& output : placed.tensors) {
    if (!output.tensor->is_output) continue;
    const uint64_t digest = arena.DigestOfOutput((*outputs)++);
    if (fault || digest == 0) continue;
    if (DigestOfElements(arena, output) != digest) fault = LateWriteTo(output.tensor->role);
  }
  return fault;
}

std::optional<Fault> FindLateWrite(const Arena& arena, const PlacedCall& placed,
                                   const OutputImages& outputs) {
  size_t number = 0;
  for (const PlacedTensor& output : placed.tensors) {
    if (!output.tensor->is_output || number >= outputs.size()) continue;
    if (const auto change = ChangedByte(outputs[number++], arena.At(output.offset)))
      return FaultAt(FaultKind::kLateWrite, "after the call had returned wrote to", *output.tensor,
                     *change);
  }
  return std::nullopt;
}

void SettledOutputs::Keep(const Arena& arena, std::span<const PlacedCall> calls) {
  outputs_.clear();
  for (const PlacedCall& call : calls)
    for (const PlacedTensor& placed : call.tensors) {
      const uint64_t bytes = placed.tensor->image.size();
      if (placed.tensor->is_output)
        outputs_.push_back(
            {placed.tensor->role, placed.offset, bytes, DigestIn(arena, placed.offset, bytes)});
    }
}

std::optional<Fault> SettledOutputs::FindLateWrite(const Arena& arena) const {
  for (const Output& output : outputs_)
    if (DigestIn(arena, output.offset, output.bytes) != output.digest)
      return LateWriteTo(output.role);
  return std::nullopt;
}

bool HasFillLeft(const Call& call, const OutputImages& outputs, std::byte fill) {
  bool left = false;
  ForEachOutput(call, [&](const CallTensor& tensor, size_t number) {
    left = left || TensorHasFill(tensor, outputs[number], fill);
  });
  return left;
}

std::optional<Fault> FindUnwritten(const Call& call, const OutputImages& first,
                                   std::byte first_fill, const OutputImages& second,
                                   std::byte second_fill) {
  std::optional<Fault> fault;
  ForEachOutput(call, [&](const CallTensor& tensor, size_t number) {
    if (fault) return;
    const size_t size = ByteSize(tensor.dtype);
    int64_t unwritten = 0;
    std::vector<int64_t> where;
    ForEachDueElement(tensor, [&](std::span<const int64_t> index, size_t offset) {
      if (!ElementIsFill(first[number], offset, size, first_fill) ||
          !ElementIsFill(second[number], offset, size, second_fill))
        return;
      if (unwritten++ == 0) where.assign(index.begin(), index.end());
    });
    if (unwritten == 0) return;
    fault = Fault{
        FaultKind::kUnwritten, tensor.role, where, 0,
        fmt::format("left {} of {} elements of {} unwritten, first {}", unwritten,
                    CountElements(tensor), RoleName(tensor.role), ElementName(tensor.role, where))};
  });
  return fault;
}

}  // namespace attest
