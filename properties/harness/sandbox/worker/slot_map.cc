#include "properties/harness/sandbox/worker/slot_map.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include <fmt/format.h>

namespace attest {
namespace {

// Slots with views lie so far beneath the reservation: there is room for all of them between it and where programs and
// sanitizers lie, and the system, which hands out addresses from above, does not come there. Address space that is not mapped is
// inaccessible already, and does not count as memory, which a reservation would.
constexpr uint64_t kFarBelow = uint64_t{72} << 40;
// What a negative offset of 2^31 elements of the largest type reaches, and more.
constexpr uint64_t kFarGuard = uint64_t{32} << 30;

uint64_t SpanOf(const MappedSlot& slot) {
  return slot.bytes + (slot.views - 1) * slot.apart;
}

}  // namespace

bool SlotMap::CanMapViews() {
  constexpr size_t kSomeBytes = 1;
  const auto map = [](void* address, int place) {
    return ::mmap(address, kSomeBytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | place, -1, 0);
  };
  void* near = map(nullptr, 0);
  if (near == MAP_FAILED) return false;
  const auto address = reinterpret_cast<uintptr_t>(near);
  ::munmap(near, kSomeBytes);
  if (address <= kFarBelow) return false;
  void* wanted = reinterpret_cast<void*>(address - kFarBelow);
  void* far = map(wanted, MAP_FIXED_NOREPLACE);
  if (far == MAP_FAILED) return false;
  ::munmap(far, kSomeBytes);
  return far == wanted;
}

tl::expected<void, std::string> SlotMap::Map(int file, uint64_t guard,
                                             std::vector<MappedSlot> slots) {
  if (!BeginWithMapped(slots)) Unmap();
  const std::span<MappedSlot> added = std::span(slots).subspan(slots_.size());
  uint64_t total = guard;
  for (const MappedSlot& slot : added)
    if (slot.views <= 1) total += slot.bytes + 2 * guard;
  if (auto reserved = Reserve(total); !reserved) {
    Unmap();
    return reserved;
  }
  std::byte* next = reserved_.back().address + guard;
  if (next_far_ == nullptr) next_far_ = reserved_.back().address - kFarBelow;
  for (MappedSlot& slot : added) {
    const bool is_far = slot.views > 1;
    if (auto mapped = MapViews(file, slot, is_far ? next_far_ : next); !mapped) {
      Unmap();
      return mapped;
    }
    slots_.push_back(slot);
    if (is_far)
      next_far_ += (SpanOf(slot) / kFarGuard + 2) * kFarGuard;
    else
      next += slot.bytes + 2 * guard;
  }
  return {};
}

bool SlotMap::BeginWithMapped(const std::vector<MappedSlot>& slots) const {
  const auto is_same = [](const MappedSlot& a, const MappedSlot& b) {
    return a.offset == b.offset && a.bytes == b.bytes && a.writable == b.writable &&
           a.views == b.views && a.apart == b.apart;
  };
  return slots.size() >= slots_.size() &&
         std::equal(slots_.begin(), slots_.end(), slots.begin(), is_same);
}

tl::expected<void, std::string> SlotMap::Reserve(uint64_t bytes) {
  void* reserved =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return tl::unexpected(
        fmt::format("cannot reserve {} bytes of memory: {}", bytes, std::strerror(errno)));
  reserved_.push_back({static_cast<std::byte*>(reserved), bytes});
  return {};
}

tl::expected<void, std::string> SlotMap::MapViews(int file, MappedSlot& slot, std::byte* first) {
  const int protection = slot.writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int place = slot.views > 1 ? MAP_FIXED_NOREPLACE : MAP_FIXED;
  for (uint64_t view = 0; view < slot.views; ++view) {
    void* mapped = ::mmap(first + view * slot.apart, slot.bytes, protection, MAP_SHARED | place,
                          file, static_cast<off_t>(slot.offset));
    if (mapped != MAP_FAILED) continue;
    const int error = errno;
    slot.views = view;
    slot.address = first;
    slots_.push_back(slot);  // what is mapped of it
    return tl::unexpected(
        fmt::format("cannot map {} bytes of the arena: {}", slot.bytes, std::strerror(error)));
  }
  slot.address = first;
  return {};
}

std::byte* SlotMap::AddressOf(uint64_t offset) const {
  auto after = std::ranges::upper_bound(slots_, offset, {}, &MappedSlot::offset);
  if (after == slots_.begin()) return nullptr;
  const MappedSlot& slot = *std::prev(after);
  return offset - slot.offset <= slot.bytes ? slot.address + (offset - slot.offset) : nullptr;
}

void SlotMap::Unmap() {
  for (const MappedSlot& slot : slots_)
    for (uint64_t view = 0; slot.apart > 0 && view < slot.views; ++view)
      ::munmap(slot.address + view * slot.apart, slot.bytes);
  for (const Reservation& reservation : reserved_) ::munmap(reservation.address, reservation.bytes);
  reserved_.clear();
  next_far_ = nullptr;
  slots_.clear();
}

}  // namespace attest
