// Which slots the arena has, and which of them hold calls. A slot holds one tensor and is of one kind: as large
// as such tensors need and no larger, so that the guard stays near the data; read-only or not; seen once or in
// several views. Slots stay for the calls that come, whatever their sizes: once there are some of every kind,
// nothing has to be mapped any more.
#ifndef ATTEST_HARNESS_SANDBOX_SLOT_POOL_H_
#define ATTEST_HARNESS_SANDBOX_SLOT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "properties/harness/sandbox/call.h"

namespace attest {

// A range of the arena file. Slots are multiples of the page size and never touch each other, so
// that the end of one is not the beginning of another.
struct Slot {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool writable = false;
  // The worker maps it so many times, each view kFarGapBytes behind the one before: the parts of a far
  // tensor, seen one in each view, then lie that much further apart than in the file.
  uint64_t views = 1;
};

// How the alignment of every tensor's first byte is chosen: in bytes.
uint64_t AlignmentOf(const Call& call, const CallTensor& tensor);

class SlotPool {
 public:
  explicit SlotPool(uint64_t page) : page_(page) {}

  // In ascending order of their offsets.
  std::span<const Slot> slots() const { return slots_; }
  // Where the last slot ends in the file.
  uint64_t end() const {
    return slots_.empty() ? page_ : slots_.back().offset + slots_.back().bytes;
  }

  // Frees all slots and sees to it that there are some for every run of calls, as long as it may be. True when
  // slots were added, or all were given up for others: there are never more than some.
  bool Fit(std::span<const Call* const> calls);

  // Frees every slot.
  void Free();
  // Takes a free slot for each tensor, in order: indices into slots(). False, and `taken` is left as it is,
  // where there are too few of a kind or enough calls have some.
  bool Take(const Call& call, std::vector<size_t>* taken);
  // Gives all slots up.
  void Clear();

 private:
  struct Kind {
    uint64_t bytes = 0;
    uint64_t views = 1;
    bool writable = false;
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Shelf {
    Kind kind;
    std::vector<size_t> slots;  // of that kind; the first `taken` hold tensors
    size_t taken = 0;
    size_t needed = 0;  // slots that there must be
  };
  struct Extent {
    uint64_t bytes = 0, views = 0, slots = 0;
    void Add(const Kind& kind, uint64_t count);
    bool is_bearable() const;
  };

  Kind KindFor(const Call& call, const CallTensor& tensor) const;
  Shelf& ShelfFor(const Kind& kind);
  void FindNeeds(std::span<const Call* const> calls, size_t at_once);
  Extent ExtentOfNeeds() const;
  Extent ExtentWithNeeds() const;
  bool HasNeeds() const;
  void AddNeeds();

  uint64_t page_;
  std::vector<Slot> slots_;
  std::vector<Shelf> shelves_;
  size_t calls_ = 0;  // that hold slots
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_SLOT_POOL_H_
