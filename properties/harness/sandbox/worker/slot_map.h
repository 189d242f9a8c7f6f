// The arena as a kernel sees it: each slot mapped by itself, inputs read-only, with inaccessible
// regions on both sides. Reservations hold them, so that nothing else of the process can
// come to lie in a guard; what lies gigabytes apart has a part of the address space that nothing else uses.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_SLOT_MAP_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_SLOT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace attest {

struct MappedSlot {
  uint64_t offset = 0;  // in the arena file
  uint64_t bytes = 0;
  bool writable = false;
  uint64_t views = 1,
           apart = 0;  // mapped so many times, each view so many bytes behind the one before
  std::byte* address = nullptr;  // of the first view
};

class SlotMap {
 public:
  SlotMap() = default;
  ~SlotMap() { Unmap(); }
  SlotMap(const SlotMap&) = delete;
  SlotMap& operator=(const SlotMap&) = delete;

  // Whether this process has the address space that views take: some machines give theirs 39 bits.
  static bool CanMapViews();

  // Replaces the mapping: `slots` ascend by offset and do not touch. Where they begin with those that are
  // mapped, these stay where they are. On an error nothing is mapped.
  tl::expected<void, std::string> Map(int file, uint64_t guard, std::vector<MappedSlot> slots);

  const std::vector<MappedSlot>& slots() const { return slots_; }

  // The address of an offset of the arena file; the end of a slot is an address too. nullptr when
  // the offset is in no slot.
  std::byte* AddressOf(uint64_t offset) const;

 private:
  struct Reservation {
    std::byte* address;
    uint64_t bytes;
  };

  bool BeginWithMapped(const std::vector<MappedSlot>& slots) const;
  tl::expected<void, std::string> Reserve(uint64_t bytes);
  tl::expected<void, std::string> MapViews(int file, MappedSlot& slot, std::byte* first);
  void Unmap();

  std::vector<Reservation> reserved_;
  std::byte* next_far_ = nullptr;  // where the next slot with views may lie
  std::vector<MappedSlot> slots_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_SLOT_MAP_H_
