#include "properties/harness/sandbox/autopsy.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/sandbox/call_inspection.h"
#include "properties/harness/sandbox/strided.h"

namespace attest {
namespace {

// A fault this near the stack pointer is the stack's own guard.
constexpr uint64_t kStackReach = 256 * 1024;
constexpr uint64_t kNullPage = 64 * 1024;

Fault Plain(FaultKind kind, std::string detail) {
  return {kind, 0, {}, 0, std::move(detail)};
}

// The tensor of the call whose slot or guards hold the address.
struct Struck {
  const PlacedTensor* tensor = nullptr;
  int64_t offset = 0;  // of the address from the tensor's first byte
};

std::optional<Struck> FindStruck(const Remains& remains, const PlacedCall& placed) {
  const uint64_t address = remains.note.address;
  for (const PlacedTensor& tensor : placed.tensors) {
    if (tensor.slot >= remains.addresses.size()) continue;
    const Slot& slot = remains.slots[tensor.slot];
    const uint64_t base = remains.addresses[tensor.slot];
    if (address + kGuardBytes < base || address >= base + slot.bytes + kGuardBytes) continue;
    const uint64_t first = base + (tensor.offset - slot.offset);
    return Struck{&tensor, static_cast<int64_t>(address - first)};
  }
  return std::nullopt;
}

Fault DescribeStrike(const Struck& struck, CrashAccess access) {
  const CallTensor& tensor = *struck.tensor->tensor;
  const auto size = static_cast<int64_t>(tensor.image.size());
  const auto element_size = static_cast<int64_t>(ByteSize(tensor.dtype));
  Fault fault;
  fault.role = tensor.role;
  fault.index = NearestElement(tensor, struck.offset);
  const std::string element = DescribeElement(tensor.role, fault.index);
  const bool write = access == kAccessWrite;
  const char* verb = write ? "wrote" : "read";
  if (struck.offset >= size) {
    // The failing access is taken to be of one element, so the first one past the end is at its
    // size.
    fault.distance_bytes = struck.offset - size + element_size;
    fault.kind = write ? FaultKind::kWriteFault : FaultKind::kReadFault;
    fault.detail = fmt::format("{} {} bytes past the end of {}, beyond {}", verb,
                               fault.distance_bytes, RoleName(tensor.role), element);
  } else if (struck.offset < 0) {
    fault.distance_bytes = struck.offset;
    fault.kind = write ? FaultKind::kWriteFault : FaultKind::kReadFault;
    fault.detail = fmt::format("{} {} bytes before the beginning of {}, before {}", verb,
                               -struck.offset, RoleName(tensor.role), element);
  } else {
    // Inside a tensor only a write to an input can fail.
    fault.kind = FaultKind::kInputChanged;
    fault.detail = fmt::format("wrote to its input {}", element);
  }
  return fault;
}

bool NearStack(const CrashNote& note) {
  if (note.stack_pointer == 0) return false;
  const uint64_t away = note.address > note.stack_pointer ? note.address - note.stack_pointer
                                                          : note.stack_pointer - note.address;
  return away < kStackReach;
}

bool NearMemoryLimit(const Remains& remains) {
  return remains.memory_limit > 0 &&
         remains.note.address_space > remains.memory_limit - remains.memory_limit / 8;
}

Fault DescribeBadAccess(const Remains& remains, const PlacedCall& placed) {
  const CrashNote& note = remains.note;
  const bool write = note.access == kAccessWrite;
  if (auto struck = FindStruck(remains, placed)) {
    return DescribeStrike(*struck, static_cast<CrashAccess>(note.access));
  }
  if (NearStack(note)) return Plain(FaultKind::kCrash, "crashed: stack overflow");
  if (NearMemoryLimit(remains)) {
    return Plain(FaultKind::kMemoryLimit,
                 fmt::format("ran into the memory limit of {} MiB", remains.memory_limit >> 20));
  }
  if (note.access == kAccessExecute) {
    return Plain(FaultKind::kCrash, "crashed: jumped to an address that holds no code");
  }
  const char* where = note.address < kNullPage ? "through a null pointer" : "outside every tensor";
  return Plain(write ? FaultKind::kWriteFault : FaultKind::kReadFault,
               fmt::format("{} memory {}", write ? "wrote" : "read", where));
}

}  // namespace

std::string SignalName(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation == nullptr ? fmt::format("signal {}", signal)
                                 : fmt::format("SIG{}", abbreviation);
}

Fault Autopsy(const Remains& remains, const PlacedCall& placed) {
  const Death& death = remains.death;
  const CrashNote& note = remains.note;
  if (death.kind == Death::Kind::kExited) {
    return Plain(FaultKind::kExit,
                 fmt::format("ended the process with exit code {} in mid-call", death.code));
  }
  if (death.kind == Death::Kind::kKilled) {
    return Plain(FaultKind::kProtocol, "closed the worker's control socket in mid-call");
  }
  const bool memory_access = death.code == SIGSEGV || death.code == SIGBUS;
  if (memory_access && note.signal == death.code && note.access != kAccessUnknown) {
    return DescribeBadAccess(remains, placed);
  }
  if (death.code == SIGABRT && NearMemoryLimit(remains)) {
    return Plain(FaultKind::kMemoryLimit,
                 fmt::format("aborted at the memory limit of {} MiB", remains.memory_limit >> 20));
  }
  return Plain(FaultKind::kCrash, fmt::format("crashed with {}", SignalName(death.code)));
}

}  // namespace attest
