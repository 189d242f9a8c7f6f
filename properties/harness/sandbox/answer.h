// What becomes of a call that the worker has answered: its reply and the arena, looked at together, make a
// CallResult. Part of the session, which knows of workers and deadlines what this file does not.
#ifndef ATTEST_HARNESS_SANDBOX_ANSWER_H_
#define ATTEST_HARNESS_SANDBOX_ANSWER_H_

#include <cstddef>
#include <string>

#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/call.h"
#include "properties/harness/sandbox/protocol.h"

namespace attest {

// Outputs are filled with one of these before a call. The first is a NaN in every floating type, so
// that a kernel which reads its output shows it; the second is finite in every one.
inline constexpr std::byte kFirstFill{0xFF};
inline constexpr std::byte kSecondFill{0xA5};

// One run of one call: a call whose outputs seem unwritten is run twice.
struct Job {
  const Call* call;
  std::byte fill;
  CallResult result;
  bool is_spoiled = false;  // its outputs were no longer what they had been when it returned
};

// The result of a call that has no values.
CallResult Faulty(Fault fault);
Fault ProtocolFault(std::string detail);

// What a worker's reply and the arena say of a finished call.
CallResult Judge(const Arena& arena, const PlacedCall& placed, const CallReply& reply);

// Whether what a kernel did in a call may show in others: it wrote where the other calls' tensors lie, or
// left a thread or a process behind that may. Those that follow get a fresh worker.
bool MayHarmOthers(const CallResult& result);

// Fills in what the second run of a call says about the first.
void Confirm(const Job& second, CallResult* result);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_ANSWER_H_
