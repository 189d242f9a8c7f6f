// The shared memory that tensors lie in: one memfd with a page for the crash note and several call
// frames of slots. A slot holds one tensor; inputs and outputs have slots of their own, so that a
// slot's protection in the worker never changes and no call costs a system call. The harness maps
// the file whole; the worker maps each slot by itself between inaccessible guard regions.
#ifndef ATTEST_HARNESS_SANDBOX_ARENA_H_
#define ATTEST_HARNESS_SANDBOX_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/sandbox/call.h"
#include "properties/harness/sandbox/crash_note.h"
#include "properties/harness/sandbox/file_descriptor.h"

namespace attest {

// Bytes of guard on each side of a slot in the worker. Large, so that a wrong stride of some
// thousand elements is caught and named too.
inline constexpr uint64_t kGuardBytes = 256 * 1024;

// How far around a tensor the slack of its slot is filled before a call and checked after it.
inline constexpr uint64_t kMarginBytes = 16 * 1024;

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

// What a slot holds at most.
struct Capacity {
  uint64_t bytes = 0;
  uint64_t views = 1;
};

// A tensor in its slot.
struct PlacedTensor {
  const CallTensor* tensor = nullptr;
  size_t slot = 0;      // index into Arena::slots()
  uint64_t offset = 0;  // of the first byte, in the arena file
};

// Where the checked slack around a tensor begins and ends, as offsets of the file.
struct SlackRange {
  uint64_t first = 0, last = 0;
};

// A call in its frame: its tensors in the call's order, and the fill of its outputs.
struct PlacedCall {
  const Call* call = nullptr;
  std::byte fill{};
  std::vector<PlacedTensor> tensors;
};

class Arena {
 public:
  static tl::expected<std::unique_ptr<Arena>, std::string> Create();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return file_.get(); }
  uint64_t file_bytes() const { return file_bytes_; }
  size_t frames() const { return frames_; }
  std::span<const Slot> slots() const { return slots_; }

  // Makes every one of these well-formed calls fit a frame, with frames for all of them as far as there
  // may be so many. True when the slots changed, so that the worker must map them anew. Slots much larger
  // than needed are cut down again: the guard stays near the data.
  tl::expected<bool, std::string> Fit(std::span<const Call* const> calls);

  // Lays a call out in a frame: copies the inputs, fills outputs with `fill` and slack with the
  // call's poison (around inputs) or `fill` (around outputs). Fit must have seen the call, which
  // must outlive the result.
  PlacedCall Place(const Call& call, size_t frame, std::byte fill);

  // The caller has found all slack of the call as Place filled it: the next call placed there need not fill
  // it again. Should it change in between, the look at that call finds it.
  void KeepSlack(const PlacedCall& placed);

  SlackRange SlackOf(const PlacedTensor& placed) const;

  // Memory at an offset of the file.
  const std::byte* At(uint64_t offset) const { return base_ + offset; }

  // What the worker noted; ClearNote makes it zero, before a worker starts.
  CrashNote note() const;
  void ClearNote();

 private:
  Arena(FileDescriptor file, uint64_t page) : file_(std::move(file)), page_(page) {}
  tl::expected<void, std::string> Resize(uint64_t bytes);
  void LayOut(size_t calls);
  void Fill(const PlacedTensor& placed, std::byte slack, std::byte fill);

  // A range of the file that holds nothing but `fill` on both sides of a tensor.
  struct Filled {
    uint64_t first = 0, tensor = 0, end = 0, last = 0;
    std::byte fill{};
  };
  void FillSlack(uint64_t first, uint64_t last, std::byte slack, const Filled& known);

  FileDescriptor file_;
  uint64_t page_;
  std::byte* base_ = nullptr;
  uint64_t file_bytes_ = 0;
  size_t frames_ = 0, most_frames_ = 0;
  std::vector<Capacity> inputs_, outputs_;  // of a frame's slots
  std::vector<Slot> slots_;                 // frame by frame, inputs first
  std::vector<Filled> kept_;                // of each slot; empty = not known
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_ARENA_H_
