// Why a worker died, in terms of the call it was computing: a signal and an address become "read 4
// bytes past the end of k, beyond k[batch 0, head 1, key 3, lane 7]".
#ifndef ATTEST_HARNESS_SANDBOX_AUTOPSY_H_
#define ATTEST_HARNESS_SANDBOX_AUTOPSY_H_

#include <cstdint>
#include <span>

#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/worker_process.h"

namespace attest {

// What is known when a worker has died in a call.
struct Remains {
  Death death;
  CrashNote note;
  std::span<const Slot> slots;
  std::span<const uint64_t> addresses;  // of each slot in the worker
  uint64_t memory_limit = 0;            // bytes
};

Fault Autopsy(const Remains& remains, const PlacedCall& placed);

// "SIGSEGV", or "signal 35" for one without a common name.
std::string SignalName(int signal);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_AUTOPSY_H_
