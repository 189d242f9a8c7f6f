// The shared memory that tensors lie in: one memfd with a page for the crash note and slots of several
// kinds. A slot holds one tensor, of the size that its kind is for; inputs and outputs have slots of their
// own, so that a slot's protection in the worker never changes. Slots stay for the calls that come: once all
// kinds are there, no call costs a system call. The harness maps the file whole; the worker maps each slot by
// itself between inaccessible guard regions.
#ifndef ATTEST_HARNESS_SANDBOX_ARENA_H_
#define ATTEST_HARNESS_SANDBOX_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/sandbox/call.h"
#include "properties/harness/sandbox/crash_note.h"
#include "properties/harness/sandbox/file_descriptor.h"
#include "properties/harness/sandbox/slot_pool.h"

namespace attest {

// Bytes of guard on each side of a slot in the worker. Large, so that a wrong stride of some
// thousand elements is caught and named too.
inline constexpr uint64_t kGuardBytes = 256 * 1024;

// How far around a tensor the slack of its slot is filled before a call and checked after it.
inline constexpr uint64_t kMarginBytes = 16 * 1024;

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

// A call in its slots: its tensors in the call's order, and the fill of its outputs.
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
  std::span<const Slot> slots() const { return pool_.slots(); }

  // Makes slots for all of these well-formed calls at once, as far as there may be so many, and at least for
  // each alone; frees all. True when the slots changed, so that the worker must map them anew: it takes time.
  tl::expected<bool, std::string> Fit(std::span<const Call* const> calls);

  // Frees every slot for the next calls.
  void Free() { pool_.Free(); }
  // Gives all slots up. For a worker to come, which maps them all: let there be those alone that its calls need.
  void Clear() { pool_.Clear(); }

  // Lays a call out in slots that are free: copies the inputs, fills outputs with `fill` and slack with the
  // call's poison (around inputs) or `fill` (around outputs). nullopt where too few are free. Fit must have
  // seen the call, which must outlive the result.
  std::optional<PlacedCall> Place(const Call& call, std::byte fill);

  // The caller has found all slack of the call as Place filled it: the next call placed there need not fill
  // it again. Should it change in between, the look at that call finds it.
  void KeepSlack(const PlacedCall& placed);

  SlackRange SlackOf(const PlacedTensor& placed) const;

  // Memory at an offset of the file.
  const std::byte* At(uint64_t offset) const { return base_ + offset; }

  // What the worker noted; ClearNote makes it zero, before a worker starts, and BeginRequest what it says of the
  // request in hand, before each one.
  CrashNote note() const;
  void ClearNote();
  void BeginRequest();
  // The digest of an output of the request in hand, by its number among them; 0 = not known, or written over.
  uint64_t DigestOfOutput(size_t number) const;

 private:
  Arena(FileDescriptor file, uint64_t page) : file_(std::move(file)), pool_(page) {}
  tl::expected<void, std::string> Resize(uint64_t bytes);
  void Fill(const PlacedTensor& placed, std::byte slack, std::byte fill);

  // A range of the file that holds nothing but `fill` on both sides of a tensor.
  struct Filled {
    uint64_t first = 0, tensor = 0, end = 0, last = 0;
    std::byte fill{};
  };
  void FillSlack(uint64_t first, uint64_t last, std::byte slack, const Filled& known);

  FileDescriptor file_;
  std::byte* base_ = nullptr;
  uint64_t file_bytes_ = 0;
  SlotPool pool_;
  std::vector<size_t> taken_;  // storage for Place
  std::vector<Filled> kept_;   // of each slot; empty = not known
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_ARENA_H_
