#include "properties/harness/sandbox/slot_pool.h"

#include <algorithm>
#include <bit>

namespace attest {
namespace {

// 16 small calls a round trip: beyond that the round trip is a small part of the time, and what they touch fills the
// caches.
constexpr size_t kMostCalls = 16;
// Of large calls there are fewer, so that one long case does not claim gigabytes.
constexpr uint64_t kMostBytes = uint64_t{64} << 20;
// Each view takes kFarGapBytes of the worker's address space.
constexpr uint64_t kMostViews = 1024;
// Each slot takes two guards of the worker's address space, which is limited: half a gibibyte in all.
constexpr uint64_t kMostSlots = 1024;
// Every slot has this much slack at least, beside what alignment takes. All of it is looked at after each call; what
// reaches beyond it meets the guard.
constexpr uint64_t kMinSlack = 1024;

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

uint64_t AlignmentOf(const Call& call, const CallTensor& tensor) {
  return std::max(static_cast<uint64_t>(call.min_alignment),
                  static_cast<uint64_t>(ByteSize(tensor.dtype)));
}

void SlotPool::Extent::Add(const Kind& kind, uint64_t count) {
  bytes += count * kind.bytes;
  views += kind.views > 1 ? count * kind.views : 0;
  slots += count;
}

bool SlotPool::Extent::is_bearable() const {
  return bytes <= kMostBytes && views <= kMostViews && slots <= kMostSlots;
}

// Bytes and views in powers of two: few kinds.
SlotPool::Kind SlotPool::KindFor(const Call& call, const CallTensor& tensor) const {
  const uint64_t bytes = tensor.image.size() + AlignmentOf(call, tensor) + kMinSlack;
  return {std::bit_ceil(RoundUp(bytes, page_)),
          std::bit_ceil(static_cast<uint64_t>(tensor.far_parts)), tensor.is_output};
}

SlotPool::Shelf& SlotPool::ShelfFor(const Kind& kind) {
  const auto found = std::ranges::find(shelves_, kind, &Shelf::kind);
  if (found != shelves_.end()) return *found;
  return shelves_.emplace_back(Shelf{kind, {}});
}

// What any `at_once` calls in a row need, where such rows begin at multiples of it. In powers of two, so that slots
// are seldom added.
void SlotPool::FindNeeds(std::span<const Call* const> calls, size_t at_once) {
  for (Shelf& shelf : shelves_) shelf.needed = 0;
  for (; !calls.empty(); calls = calls.subspan(std::min(at_once, calls.size()))) {
    Free();
    for (const Call* call : calls.first(std::min(at_once, calls.size())))
      for (const CallTensor& tensor : call->tensors) {
        Shelf& shelf = ShelfFor(KindFor(*call, tensor));
        shelf.needed = std::max(shelf.needed, std::bit_ceil(++shelf.taken));
      }
  }
  Free();
}

SlotPool::Extent SlotPool::ExtentOfNeeds() const {
  Extent extent;
  for (const Shelf& shelf : shelves_) extent.Add(shelf.kind, shelf.needed);
  return extent;
}

SlotPool::Extent SlotPool::ExtentWithNeeds() const {
  Extent extent;
  for (const Shelf& shelf : shelves_)
    extent.Add(shelf.kind, std::max(shelf.needed, shelf.slots.size()));
  return extent;
}

bool SlotPool::HasNeeds() const {
  return std::ranges::all_of(shelves_,
                             [](const Shelf& shelf) { return shelf.needed <= shelf.slots.size(); });
}

void SlotPool::AddNeeds() {
  for (Shelf& shelf : shelves_)
    while (shelf.slots.size() < shelf.needed) {
      const uint64_t offset = end() + page_;  // a page keeps slots apart
      shelf.slots.push_back(slots_.size());
      slots_.push_back({offset, shelf.kind.bytes, shelf.kind.writable, shelf.kind.views});
    }
}

bool SlotPool::Fit(std::span<const Call* const> calls) {
  size_t at_once = kMostCalls;
  FindNeeds(calls, at_once);
  while (at_once > 1 && !ExtentOfNeeds().is_bearable()) FindNeeds(calls, at_once /= 2);
  if (HasNeeds()) return false;
  if (!ExtentWithNeeds().is_bearable()) Clear();
  AddNeeds();
  return true;
}

void SlotPool::Free() {
  for (Shelf& shelf : shelves_) shelf.taken = 0;
  calls_ = 0;
}

bool SlotPool::Take(const Call& call, std::vector<size_t>* taken) {
  if (calls_ == kMostCalls) return false;
  const size_t before = taken->size();
  for (const CallTensor& tensor : call.tensors) {
    Shelf& shelf = ShelfFor(KindFor(call, tensor));
    if (shelf.taken == shelf.slots.size()) {
      taken->resize(before);
      calls_ = kMostCalls;  // some of what it would have had is no longer free: that was the last
      return false;
    }
    taken->push_back(shelf.slots[shelf.taken++]);
  }
  ++calls_;
  return true;
}

void SlotPool::Clear() {
  slots_.clear();
  for (Shelf& shelf : shelves_) shelf.slots.clear();
  Free();
}

}  // namespace attest
