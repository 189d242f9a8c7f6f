// A kernel in its worker process: the only way the harness runs a kernel. The session loads the
// plug-in in a child, lays the tensors of each call out in shared memory between guard pages, and
// turns whatever happens there (a crash, a hang, an overread, an exit) into a CallResult. The
// worker is restarted after a death; the harness never is. One session is used by one thread at a
// time.
#ifndef ATTEST_HARNESS_SANDBOX_SESSION_H_
#define ATTEST_HARNESS_SANDBOX_SESSION_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/contract.h"
#include "properties/harness/sandbox/call.h"

namespace attest {

// How a user names a kernel: PATH_OR_NAME[:VARIANT][?key=value[&key=value]...]. A name without a
// slash is looked up among the installed plug-ins ("tiled" is attest_kernel_tiled.so).
// python:FILE[:FUNCTION] and node:FILE[:FUNCTION] are functions in those languages.
struct KernelSpec {
  std::string text;                                          // as written by the user
  std::string library;                                       // path of the shared library or file
  std::vector<std::pair<std::string, std::string>> options;  // "variant" first where given
  std::vector<std::string> worker{};  // program to run it, first arguments; empty: attest_worker
};
// Resolves a name; the error is one line that lists what is installed when the name is unknown.
tl::expected<KernelSpec, std::string> ResolveKernel(std::string_view text);
// The names of installed plug-ins ("reference", "tiled", ...), sorted.
std::vector<std::string> InstalledKernels();

struct SessionOptions {
  // Per call. Loading and the first call of the session get ten times it; the first call after a restart
  // gets four times what that one took, if that is more. See also KernelSession::SetHurried.
  std::chrono::milliseconds deadline{2000};
  uint64_t memory_limit_bytes = uint64_t{8} << 30;
  int threads = 1;
  // Set from outside: no more waiting. See KernelSession::interrupted.
  const std::atomic<bool>* stop = nullptr;
};

struct KernelIdentity {
  std::string name;
  std::string version;
  std::string contract_json;
  // What the worker can do beside computing call after call.
  bool can_run_at_once = false;  // several calls at the same time
  bool takes_threads = false;    // it hands SessionOptions::threads to the kernel
  bool maps_views = false;       // it maps a slot several times, as far tensors need (call.h)
  bool notes_digests = false;  // it says what each output was when its call returned (crash_note.h)
  // What was loaded for the kernel beside KernelSpec::library, as far as its worker knows: paths.
  std::vector<std::string> files{};
};

// The contract of a kernel; what its worker cannot carry is not offered. The error is ParseContract's.
tl::expected<Contract, std::string> ContractOf(const KernelIdentity& identity);

// Why a session cannot do what is asked of it.
struct Unable {
  std::string reason;     // one line
  bool is_fault = false;  // the kernel crashed or hung over it
};

// Counters since the session opened, those of WithThreads not counted; where the time goes.
struct SessionStats {
  int64_t calls = 0;
  int64_t round_trips = 0;
  int64_t restarts = 0;
  double seconds_in_worker = 0;   // waiting for replies
  double seconds_refreshing = 0;  // starting anew after Refresh
};

class KernelSession {
 public:
  // Starts a worker and creates the kernel. The error is one line: library missing or not loadable,
  // symbol missing, wrong ABI version, create refused (with the kernel's own message), crash or
  // hang while loading.
  static tl::expected<std::unique_ptr<KernelSession>, std::string> Open(
      const KernelSpec& spec, const SessionOptions& options = {});
  ~KernelSession();
  KernelSession(const KernelSession&) = delete;
  KernelSession& operator=(const KernelSession&) = delete;

  const KernelIdentity& identity() const;
  const KernelSpec& spec() const;
  const SessionStats& stats() const;

  // Runs the calls in order, and returns one result a call. A fault in one call costs the others nothing: they are run
  // again in a fresh worker. Never throws, never blocks longer than the deadlines. Calls go in one round trip where
  // they fit the arena and the worker says what each call's outputs were when it returned: a kernel that writes to an
  // earlier call's outputs has a late write, though they are looked at when all calls are made.
  std::vector<CallResult> Run(std::span<const Call> calls);

  // Runs the calls at the same time on the one kernel instance, a thread each, all of which have `size`
  // times a call's deadline. Where one has a fault all are run again by Run: who fails alone fails so
  // here, and if none does, the faults are of the calls at once and say so. Unable where the worker
  // computes one call at a time, or the calls do not fit the arena side by side.
  tl::expected<std::vector<CallResult>, Unable> RunAtOnce(std::span<const Call> calls);

  // A session of the same kernel with so many threads (1 or more): this one, or one that is opened when
  // first asked for and lives as long as this one. Unable where the kernel cannot be made with so many
  // threads or has another contract then, or where its worker hands it no thread count.
  tl::expected<KernelSession*, Unable> WithThreads(int threads);

  // While hurried, a call has twenty times what the slowest answered call of the session took, at least an
  // eighth of the deadline and at most the whole. For searches among calls that hang, at a deadline each:
  // what they find is to be confirmed without hurry, for on a busy machine any call may be slow once.
  void SetHurried(bool hurried);

  // Ends the worker, and those of WithThreads: the next call is the first that its kernel sees. No death:
  // it counts among no restarts.
  void Refresh();

  // Whether SessionOptions::stop has cut a wait short, here or in a session of WithThreads. The results of
  // that run and of later ones mean nothing.
  bool interrupted() const;

  // What the kernel printed since the last call of this function (stdout and stderr, at most 64
  // KiB of each worker).
  std::string TakeOutput();

 private:
  struct Impl;
  explicit KernelSession(std::unique_ptr<Impl> impl);
  static tl::expected<std::unique_ptr<KernelSession>, Unable> TryOpen(
      const KernelSpec& spec, const SessionOptions& options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_SESSION_H_
