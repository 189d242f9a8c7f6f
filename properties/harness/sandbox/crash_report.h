// Turns a worker's death into a fault of the call that was running: which tensor an address belongs
// to, which element is nearest, what the signal means.
#ifndef ATTEST_HARNESS_SANDBOX_CRASH_REPORT_H_
#define ATTEST_HARNESS_SANDBOX_CRASH_REPORT_H_

#include <cstdint>
#include <span>
#include <string>

#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/call.h"
#include "properties/harness/sandbox/worker_process.h"

namespace attest {

// A death and what is known of its circumstances.
struct Crash {
  Death death;
  CrashNote note;
  std::span<const Slot> slots;          // of the arena
  std::span<const uint64_t> addresses;  // of the slots, in the worker
  uint64_t memory_limit = 0;            // bytes of address space; 0 = none
  bool catches_signals = true;          // the worker does, and notes them
};

// The fault of `placed`, the call in progress.
Fault ExplainCrash(const Crash& crash, const PlacedCall& placed);

// A death without a call, as the rest of a sentence: "crashed (SIGSEGV)", "ended the process with
// exit code 3".
std::string DescribeDeath(const Death& death);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_CRASH_REPORT_H_
