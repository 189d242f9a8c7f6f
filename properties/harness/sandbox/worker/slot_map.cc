#include "properties/harness/sandbox/worker/slot_map.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace attest {

tl::expected<void, std::string> SlotMap::Map(int file, uint64_t guard,
                                             std::vector<MappedSlot> slots) {
  Unmap();
  uint64_t total = guard;
  for (const MappedSlot& slot : slots) total += slot.bytes + 2 * guard;
  void* reserved =
      ::mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return tl::unexpected(
        fmt::format("cannot reserve {} bytes of memory: {}", total, std::strerror(errno)));
  reserved_ = static_cast<std::byte*>(reserved);
  reserved_bytes_ = total;
  std::byte* next = reserved_ + guard;
  for (MappedSlot& slot : slots) {
    const int protection = slot.writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void* mapped = ::mmap(next, slot.bytes, protection, MAP_SHARED | MAP_FIXED, file,
                          static_cast<off_t>(slot.offset));
    if (mapped == MAP_FAILED) {
      const int error = errno;
      Unmap();
      return tl::unexpected(
          fmt::format("cannot map {} bytes of the arena: {}", slot.bytes, std::strerror(error)));
    }
    slot.address = next;
    next += slot.bytes + 2 * guard;
  }
  slots_ = std::move(slots);
  return {};
}

std::byte* SlotMap::AddressOf(uint64_t offset) const {
  auto after = std::ranges::upper_bound(slots_, offset, {}, &MappedSlot::offset);
  if (after == slots_.begin()) return nullptr;
  const MappedSlot& slot = *std::prev(after);
  return offset - slot.offset <= slot.bytes ? slot.address + (offset - slot.offset) : nullptr;
}

void SlotMap::Unmap() {
  if (reserved_ != nullptr) ::munmap(reserved_, reserved_bytes_);
  reserved_ = nullptr;
  slots_.clear();
}

}  // namespace attest
