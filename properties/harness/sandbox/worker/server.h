// The worker's side of the protocol: takes a request line, does what it asks, writes reply lines.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_SERVER_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "properties/harness/sandbox/crash_note.h"
#include "properties/harness/sandbox/worker/float_environment.h"
#include "properties/harness/sandbox/worker/plugin.h"
#include "properties/harness/sandbox/worker/slot_map.h"

namespace attest {

class Server {
 public:
  Server(int control, int arena, CrashNote* note);

  // Serves until the harness closes the control socket or something fails that cannot be answered.
  // Returns true in the first case, after the kernel has been destroyed.
  bool Serve();

 private:
  bool Handle(std::string_view line);
  bool Dispatch(const nlohmann::json& request, int64_t id);
  bool Load(const nlohmann::json& request, int64_t id);
  bool Map(const nlohmann::json& request, int64_t id);
  bool Run(const nlohmann::json& request, int64_t id);
  bool RunCall(const nlohmann::json& call, int64_t id, size_t index);
  bool Reply(std::string line);
  bool ReplyError(int64_t id, std::string_view error);

  int control_;
  int arena_;
  CrashNote* note_;
  pid_t pid_;
  FloatEnvironment baseline_;
  Plugin plugin_;
  SlotMap slots_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_SERVER_H_
