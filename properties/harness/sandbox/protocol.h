// What the harness and the worker say to each other: one JSON object a line. impl/abi/PROTOCOL.md describes
// it for authors of workers in other languages. This is the harness's side: it writes requests and
// reads replies, which it does not trust, since a kernel can write to any descriptor.
#ifndef ATTEST_HARNESS_SANDBOX_PROTOCOL_H_
#define ATTEST_HARNESS_SANDBOX_PROTOCOL_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

inline constexpr int kProtocolVersion = 1;

// Requests. `id` numbers them and comes back in every reply.
std::string LoadRequest(int64_t id, const KernelSpec& spec, const SessionOptions& options);
std::string MapRequest(int64_t id, const Arena& arena);
// `at_once` asks for all calls at the same time, which only a worker with `can_run_at_once` does.
std::string RunRequest(int64_t id, std::span<const PlacedCall> calls, bool at_once = false);
// The same for a worker that takes packed calls: a line, and behind it the words of packed_calls.h.
std::string PackedRunRequest(int64_t id, std::span<const PlacedCall> calls, bool at_once = false);

// Replies. The error of each parser is one phrase that says what the worker answered instead.
// LoadReply and MapReply also return the worker's own error, unchanged.
struct LoadReply : KernelIdentity {
  bool takes_packed = false;  // it reads PackedRunRequest
};
tl::expected<LoadReply, std::string> ParseLoadReply(std::string_view line, int64_t id);

// The address of each slot in the worker.
tl::expected<std::vector<uint64_t>, std::string> ParseMapReply(std::string_view line, int64_t id,
                                                               size_t slots);

struct CallReply {
  size_t through = 0;             // the reply is that of all calls up to this one
  int status = 0;                 // attest_status, not checked
  std::string message;            // the kernel's reason
  std::string float_environment;  // what the kernel changed there, or empty
  std::string thrown;             // what an exception said that came out of the kernel, or empty
  bool out_of_memory = false;     // that exception was a failed allocation
  int64_t changed_role = 0;       // of a forward output that the backward pass changed
  int64_t left_processes = 0;     // copies of the worker that the kernel left running
};
// The reply to `call`, or to it and some that follow it, of as many calls as there are.
tl::expected<CallReply, std::string> ParseCallReply(std::string_view line, int64_t id, size_t call,
                                                    size_t calls);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_PROTOCOL_H_
