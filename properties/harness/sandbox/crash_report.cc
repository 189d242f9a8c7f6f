#include "properties/harness/sandbox/crash_report.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/sandbox/fault_words.h"
#include "properties/harness/sandbox/strided.h"

namespace attest {
namespace {

// Below this an address is a null pointer with an offset: Linux maps nothing there.
constexpr uint64_t kNullZone = 64 * 1024;
// How far from the stack pointer an access counts as one to the stack: one large frame.
constexpr uint64_t kStackReach = uint64_t{1} << 20;

Fault Plain(FaultKind kind, std::string detail) {
  return {kind, 0, {}, 0, std::move(detail)};
}

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

// A slot and the distance of the address from the slot's beginning (negative in the guard before); in a slot with
// several views, from the beginning of the view that it lies in.
struct Hit {
  size_t slot;
  int64_t offset;
};

bool IsNear(const Slot& slot, uint64_t offset) {
  return offset + kGuardBytes < slot.bytes + 2 * kGuardBytes;
}

// The slot whose memory or guard contains the address. The addresses come from the worker, so
// nothing is assumed of their order.
std::optional<Hit> FindSlot(const Crash& crash, uint64_t address) {
  for (size_t slot = 0; slot < crash.addresses.size(); ++slot) {
    const uint64_t offset = address - crash.addresses[slot];  // wraps before the beginning
    const uint64_t view =
        std::min((offset + kGuardBytes) / kFarGapBytes, crash.slots[slot].views - 1);
    const uint64_t in_view = offset - view * kFarGapBytes;
    if (IsNear(crash.slots[slot], in_view)) return Hit{slot, static_cast<int64_t>(in_view)};
  }
  return std::nullopt;
}

// What is left of an offset that was counted, in elements or in bytes, in 32 bits: in bytes.
std::array<int64_t, 4> CutOffsets(int64_t elements, int64_t size) {
  const int64_t bytes = elements * size;
  return {int64_t{static_cast<int32_t>(elements)} * size,
          int64_t{static_cast<uint32_t>(elements)} * size, static_cast<int32_t>(bytes),
          static_cast<uint32_t>(bytes)};
}

// Whether an access `distance` bytes from the first element of a far tensor is one to some element by an offset
// cut to 32 bits; `index` is that element then.
bool IsCutOffset(const CallTensor& tensor, int64_t distance, std::vector<int64_t>* index) {
  const auto size = static_cast<int64_t>(ByteSize(tensor.dtype));
  bool found = false;
  ForEachElement(tensor, [&](std::span<const int64_t> at, size_t) {
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * tensor.KernelStrides()[d];
    for (const int64_t cut : CutOffsets(offset, size)) {
      if (found || cut == offset * size || distance < cut || distance >= cut + size) continue;
      found = true;
      index->assign(at.begin(), at.end());
    }
  });
  return found;
}

// An access outside everything that a 32-bit offset into a far tensor of the call leads to.
std::optional<Fault> ExplainCutOffset(const Crash& crash, const PlacedCall& placed, bool write) {
  for (const PlacedTensor& one : placed.tensors) {
    if (one.tensor->far_parts <= 1 || one.slot >= crash.addresses.size()) continue;
    const uint64_t first = crash.addresses[one.slot] + (one.offset - crash.slots[one.slot].offset);
    const auto distance = static_cast<int64_t>(crash.note.address - first);
    Fault fault{
        write ? FaultKind::kWriteFault : FaultKind::kReadFault, one.tensor->role, {}, distance, ""};
    if (!IsCutOffset(*one.tensor, distance, &fault.index)) continue;
    fault.is_cut_offset = true;
    fault.detail =
        fmt::format("{} {}, {}, at an offset cut to 32 bits: {} bytes from its first element",
                    write ? "wrote" : "read", RoleName(fault.role),
                    ElementName(fault.role, fault.index), distance);
    return fault;
  }
  return std::nullopt;
}

bool IsStackOverflow(const CrashNote& note) {
  const uint64_t sp = note.stack_pointer;
  return sp > kStackReach && note.address >= sp - kStackReach && note.address <= sp + kNullZone;
}

bool IsOutOfMemory(const Crash& crash) {
  const bool near_limit =
      crash.memory_limit > 0 && crash.note.address_space > crash.memory_limit / 4 * 3;
  const bool gave_up = crash.note.signal == SIGABRT || crash.note.address < kNullZone;
  return near_limit && gave_up;
}

Fault OutOfMemory(const Crash& crash) {
  return Plain(FaultKind::kMemoryLimit,
               fmt::format("failed at {} bytes of address space; the limit is {}",
                           crash.note.address_space, crash.memory_limit));
}

// An access in the slot of a tensor of this call, or in the guard around it.
Fault ExplainHit(const Hit& hit, bool write, const PlacedTensor& placed, const Slot& slot) {
  const int64_t offset = hit.offset - static_cast<int64_t>(placed.offset - slot.offset);
  const CallTensor& tensor = *placed.tensor;
  const auto size = static_cast<int64_t>(tensor.image.size());
  const bool inside = offset >= 0 && offset < size;
  if (write && inside && !tensor.is_output)
    return FaultAt(FaultKind::kInputChanged, "wrote to the input", tensor, offset);
  return FaultAt(write ? FaultKind::kWriteFault : FaultKind::kReadFault, write ? "wrote" : "read",
                 tensor, offset);
}

Fault ExplainAddress(const Crash& crash, const PlacedCall& placed) {
  const CrashNote& note = crash.note;
  const bool write = note.access == kAccessWrite;
  if (const auto hit = FindSlot(crash, note.address))
    for (const PlacedTensor& tensor : placed.tensors)
      if (tensor.slot == hit->slot) return ExplainHit(*hit, write, tensor, crash.slots[hit->slot]);
  if (auto cut = ExplainCutOffset(crash, placed, write)) return *cut;
  if (note.access == kAccessExecute)
    return Plain(FaultKind::kCrash, fmt::format("jumped to address {:#x}", note.address));
  if (IsStackOverflow(note)) return Plain(FaultKind::kCrash, "stack overflow");
  if (IsOutOfMemory(crash)) return OutOfMemory(crash);
  const char* where = note.address < kNullZone ? "a null pointer" : "outside every tensor";
  return Plain(
      write ? FaultKind::kWriteFault : FaultKind::kReadFault,
      fmt::format("{} address {:#x}: {}", write ? "wrote to" : "read from", note.address, where));
}

Fault ExplainSignal(const Crash& crash, const PlacedCall& placed) {
  const int signal = crash.death.code;
  const CrashNote& note = crash.note;
  const bool noted = note.signal == signal;
  if (noted && (signal == SIGSEGV || signal == SIGBUS) && note.signal_code > 0) {
    if (note.signal_code != SI_KERNEL) return ExplainAddress(crash, placed);
    return Plain(FaultKind::kCrash,
                 fmt::format("{}: a vector access that needs more alignment than the {} bytes "
                             "given, or a wild pointer",
                             SignalName(signal), placed.call->min_alignment));
  }
  if (noted && signal == SIGABRT && IsOutOfMemory(crash)) return OutOfMemory(crash);
  if (signal == SIGKILL)
    return Plain(FaultKind::kCrash,
                 "killed by SIGKILL, which the harness did not send: perhaps out of memory");
  if (signal == SIGSEGV && !noted)
    return Plain(
        FaultKind::kCrash,
        crash.catches_signals
            ? "SIGSEGV that could not be handled: perhaps a stack overflow in a thread"
            : "SIGSEGV: perhaps an access outside of a tensor; the worker of a script does "
              "not say where");
  return Plain(FaultKind::kCrash, SignalName(signal));
}

}  // namespace

Fault ExplainCrash(const Crash& crash, const PlacedCall& placed) {
  Fault fault;
  switch (crash.death.kind) {
    case Death::Kind::kSignaled:
      fault = ExplainSignal(crash, placed);
      break;
    case Death::Kind::kExited:
      if (crash.death.code == kCannotAnswer && crash.note.in_call == 0)
        return Plain(FaultKind::kProtocol,
                     "the worker could not answer: its control socket is gone");
      fault = Plain(FaultKind::kExit, DescribeDeath(crash.death));
      break;
    case Death::Kind::kKilled:
      return Plain(FaultKind::kProtocol, DescribeDeath(crash.death));
  }
  if (crash.note.in_call == 0) fault.detail += " (outside a call, after the one before)";
  return fault;
}

std::string DescribeDeath(const Death& death) {
  switch (death.kind) {
    case Death::Kind::kSignaled:
      return fmt::format("crashed ({})", SignalName(death.code));
    case Death::Kind::kExited:
      return fmt::format("ended the process with exit code {}", death.code);
    case Death::Kind::kKilled:
      break;
  }
  return "closed its control socket and went on running";
}

}  // namespace attest
