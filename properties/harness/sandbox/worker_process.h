// The worker as an operating-system process: started with its file descriptors, spoken to in lines,
// ended with everything it forked. Knows nothing of kernels or of what the lines say. Every wait
// has a deadline, and what the worker prints is read while waiting, so that it can never block.
// Between this process and the worker stands a guard (guard/main.cc), which outlives both.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_PROCESS_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/sandbox/file_descriptor.h"

namespace attest {

using Clock = std::chrono::steady_clock;

// The descriptors that a worker finds open, beside an empty stdin.
inline constexpr int kControlFd = 3;   // a stream socket: lines in both directions
inline constexpr int kArenaFd = 4;     // the arena file
inline constexpr int kLifelineFd = 5;  // to be left open: the harness's death kills through it

// The exit code of attest_worker where it can neither read requests nor send answers any more.
inline constexpr int kCannotAnswer = 70;

// What the guard tells the harness, on a descriptor that the worker does not get: two records.
inline constexpr int kGuardReportFd = 6;
struct GuardStarted {
  int error = 0;      // errno of a worker that could not be started; nothing follows it
  pid_t worker = -1;  // its process
};
struct GuardEnded {
  int status = 0;  // of the worker, as waitpid gives it; all else that came of it is dead too
};

// How a worker ended.
struct Death {
  enum class Kind { kExited, kSignaled, kKilled };  // kKilled: by us, it had not ended by itself
  Kind kind = Kind::kKilled;
  int code = 0;  // exit code or signal
};

// The last kOutputBytes of what the worker printed.
class OutputTail {
 public:
  static constexpr size_t kOutputBytes = 64 * 1024;
  void Append(std::string_view text);
  std::string Take();

 private:
  std::string text_;
};

class WorkerProcess {
 public:
  enum class Received { kLine, kTimeout, kGone, kOversized };

  // Starts `command`, a program (looked up in PATH unless it has a slash) and its arguments, with the
  // arena as kArenaFd. What it prints goes to `output`, which must outlive the process. Makes this
  // process the subreaper of its descendants, for the rest of its life.
  static tl::expected<std::unique_ptr<WorkerProcess>, std::string> Start(
      const std::vector<std::string>& command, int arena_fd, OutputTail* output);
  // Kills the worker and all it forked, if Bury has not been called.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Sends a line (the newline is added). False when the worker is gone or does not read.
  bool Send(std::string line, Clock::time_point deadline);

  // Waits for a line, which is returned without its newline.
  Received Receive(std::string* line, Clock::time_point deadline);

  // Reads what has been printed so far, without waiting.
  void DrainOutput();

  // Closes the control socket, waits at most `grace` for the worker to end by itself, then kills
  // what remains of it and of what it forked.
  Death Bury(std::chrono::milliseconds grace);

  // The worker's process; it may have ended.
  pid_t pid() const { return worker_; }

 private:
  struct Pipes;
  WorkerProcess(pid_t guard, Pipes pipes, OutputTail* output);
  bool HasEnded() const;
  int WaitForGuard();
  bool TakeLine(std::string* line);
  bool ReadControl(int flags);

  pid_t guard_;
  pid_t worker_ = -1;
  FileDescriptor control_, printed_, lifeline_, report_;
  OutputTail* output_;
  std::string received_;
  bool buried_ = false;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_PROCESS_H_
