// The worker's side of the protocol: takes a request line, does what it asks, writes reply lines.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_SERVER_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "properties/harness/sandbox/crash_note.h"
#include "properties/harness/sandbox/worker/arguments.h"
#include "properties/harness/sandbox/worker/float_environment.h"
#include "properties/harness/sandbox/worker/fork_watch.h"
#include "properties/harness/sandbox/worker/plugin.h"
#include "properties/harness/sandbox/worker/slot_map.h"

namespace attest {

// What became of one call.
struct Computed {
  int status = 0;                 // attest_status, as the kernel returned it
  std::string float_environment;  // what the kernel changed there, or empty
  bool has_thrown = false;
  bool out_of_memory = false;  // that exception was a failed allocation
  std::string thrown;
  int32_t changed_role = 0;  // of a forward output that the backward pass changed
  int left_processes = 0;    // copies of the worker that the kernel has forked and left running
};

class Server {
 public:
  Server(int control, int arena, CrashNote* note);

  // Serves until the harness closes the control socket or something fails that cannot be answered.
  // Returns true in the first case, after the kernel has been destroyed.
  bool Serve();

 private:
  // Answers the first request of what has been received. Returns the bytes that it took, 0 where it has not
  // come in whole; nullopt where it cannot be answered.
  std::optional<size_t> Handle(std::string_view received);
  bool Dispatch(const nlohmann::json& request, std::string_view packed, int64_t id);
  bool Load(const nlohmann::json& request, int64_t id);
  bool Map(const nlohmann::json& request, int64_t id);
  bool Run(const nlohmann::json& request, std::string_view packed, int64_t id);
  bool RunCall(Arguments& arguments, int64_t id, size_t index);
  bool RunAtOnce(WordReader& words, size_t calls, int64_t id);
  Computed Compute(Arguments& arguments) const;
  bool Answer(int64_t id, size_t index, Arguments& arguments, const Computed& computed);
  bool ReplyToHeld(int64_t id, size_t end);
  bool Reply(std::string line);
  bool ReplyError(int64_t id, std::string_view error);

  int control_;
  int arena_;
  CrashNote* note_;
  pid_t pid_;
  FloatEnvironment baseline_;
  Plugin plugin_;
  SlotMap slots_;
  ForkWatch forks_;
  size_t first_held_ = 0;        // of the run in hand: the first call without a reply
  std::span<uint64_t> digests_;  // likewise: room for those of calls to come
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_SERVER_H_
