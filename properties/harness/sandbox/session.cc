#include "properties/harness/sandbox/session.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <attest/kernel.h>
#include <fmt/format.h>

#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/crash_report.h"
#include "properties/harness/sandbox/inspect.h"
#include "properties/harness/sandbox/locate.h"
#include "properties/harness/sandbox/protocol.h"
#include "properties/harness/sandbox/strided.h"
#include "properties/harness/sandbox/worker_process.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

// Outputs are filled with one of these before a call. The first is a NaN in every floating type, so
// that a kernel which reads its output shows it; the second is finite in every one.
constexpr std::byte kFirstFill{0xFF};
constexpr std::byte kSecondFill{0xA5};

// A fresh worker loads, relocates and allocates: its first answers may take longer.
constexpr int kFirstCallFactor = 10;
// How long a worker that closed its socket may take to be dead.
constexpr milliseconds kDyingGrace{500};
// How long a worker may take to destroy its kernel when the session closes.
constexpr milliseconds kClosingGrace{200};

CallResult Faulty(Fault fault) {
  CallResult result;
  result.fault = std::move(fault);
  return result;
}

Fault ProtocolFault(std::string detail) {
  return {FaultKind::kProtocol, 0, {}, 0, std::move(detail)};
}

// One run of one call: a call whose outputs seem unwritten is run twice.
struct Job {
  const Call* call;
  std::byte fill;
  CallResult result;
};

std::optional<CallStatus> StatusOf(int status) {
  switch (status) {
    case ATTEST_OK:
      return CallStatus::kOk;
    case ATTEST_UNSUPPORTED:
      return CallStatus::kUnsupported;
    case ATTEST_INVALID_ARGUMENT:
      return CallStatus::kInvalidArgument;
    case ATTEST_FAILED:
      return CallStatus::kFailed;
    default:
      return std::nullopt;
  }
}

// What a worker's reply and the arena say of a finished call.
CallResult Judge(const Arena& arena, const PlacedCall& placed, const CallReply& reply) {
  if (reply.out_of_memory)
    return Faulty({FaultKind::kMemoryLimit,
                   0,
                   {},
                   0,
                   "an allocation failed: " + reply.thrown + " came out of the kernel"});
  if (!reply.thrown.empty())
    return Faulty(
        {FaultKind::kCrash, 0, {}, 0, "threw an exception through the C ABI: " + reply.thrown});
  const auto status = StatusOf(reply.status);
  if (!status)
    return Faulty(ProtocolFault(fmt::format("returned the unknown status {}", reply.status)));
  CallResult result;
  result.status = *status;
  result.message = reply.message;
  result.fault = FindChangedInput(arena, placed);
  if (!result.fault) result.fault = FindStrayWrite(arena, placed);
  if (!result.fault && !reply.float_environment.empty())
    result.fault = Fault{FaultKind::kFloatEnvironment,
                         0,
                         {},
                         0,
                         "changed the floating-point environment: " + reply.float_environment};
  if (*status == CallStatus::kOk) result.outputs = CopyOutputs(arena, placed);
  return result;
}

// Fills in what the second run of a call says about the first.
void Confirm(const Job& second, CallResult* result) {
  if (second.result.fault) {
    result->fault = second.result.fault;
    result->fault->detail += " (when run again)";
    if (second.result.status != CallStatus::kOk) {
      result->status = CallStatus::kFault;
      result->outputs.clear();
    }
  } else if (second.result.status == CallStatus::kOk) {
    result->fault = FindUnwritten(*second.call, result->outputs, kFirstFill, second.result.outputs,
                                  kSecondFill);
  } else {
    result->fault =
        Fault{FaultKind::kUnwritten,
              0,
              {},
              0,
              "left output elements unwritten and, when run again, did not return OK: " +
                  second.result.message};
  }
}

}  // namespace

struct KernelSession::Impl {
  Impl(KernelSpec s, const SessionOptions& o, std::unique_ptr<Arena> a)
      : spec(std::move(s)), options(o), arena(std::move(a)) {}
  ~Impl() {
    if (worker) worker->Bury(kClosingGrace);
  }

  // Each returns one line where the worker could not be brought to the state.
  std::optional<std::string> Start();
  std::optional<std::string> Map();
  std::optional<std::string> MakeReady();
  tl::expected<std::string, std::string> Ask(std::string request, std::string_view doing);

  void RunJobs(std::span<Job> jobs);
  size_t RunBatch(std::span<Job> jobs);
  WorkerProcess::Received Receive(std::string* line, milliseconds limit);
  Fault Autopsy(WorkerProcess::Received what, milliseconds limit, const PlacedCall& placed);
  milliseconds CallDeadline() const {
    return settled ? options.deadline : options.deadline * kFirstCallFactor;
  }

  KernelSpec spec;
  SessionOptions options;
  KernelIdentity identity;
  SessionStats stats;
  OutputTail printed;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<WorkerProcess> worker;
  std::vector<uint64_t> addresses;  // of the slots in the worker; empty = not mapped
  bool settled = false;             // some call has been answered: the slow start is over
  int64_t next_id = 1;
};

WorkerProcess::Received KernelSession::Impl::Receive(std::string* line, milliseconds limit) {
  const auto begin = Clock::now();
  const auto received = worker->Receive(line, begin + limit);
  stats.seconds_in_worker += std::chrono::duration<double>(Clock::now() - begin).count();
  return received;
}

// One request with one reply, outside of calls. After an error there is no worker.
tl::expected<std::string, std::string> KernelSession::Impl::Ask(std::string request,
                                                                std::string_view doing) {
  const milliseconds limit = options.deadline * kFirstCallFactor;
  std::string line;
  const bool sent = worker->Send(std::move(request), Clock::now() + limit);
  const auto received = sent ? Receive(&line, limit) : WorkerProcess::Received::kGone;
  if (received == WorkerProcess::Received::kLine) return line;
  std::string why;
  if (received == WorkerProcess::Received::kTimeout)
    why = fmt::format("no answer within {} ms", limit.count());
  else if (received == WorkerProcess::Received::kOversized)
    why = "an endless answer";
  else
    why = DescribeDeath(worker->Bury(kDyingGrace));
  worker.reset();
  return tl::unexpected(fmt::format("{}: while {}: {}", spec.library, doing, why));
}

std::optional<std::string> KernelSession::Impl::Start() {
  arena->ClearNote();
  addresses.clear();
  std::vector<std::string> command = spec.worker;
  if (command.empty()) command.push_back(WorkerProgram().string());
  command.push_back(spec.library);  // shown by ps
  auto started = WorkerProcess::Start(command, arena->fd(), &printed);
  if (!started) return started.error();
  worker = std::move(*started);
  const int64_t id = next_id++;
  const auto reply = Ask(LoadRequest(id, spec, options), "loading");
  if (!reply) return reply.error();
  auto loaded = ParseLoadReply(*reply, id);
  if (!loaded) {
    worker.reset();
    return loaded.error();
  }
  identity = std::move(*loaded);
  return std::nullopt;
}

std::optional<std::string> KernelSession::Impl::Map() {
  const int64_t id = next_id++;
  const auto reply = Ask(MapRequest(id, *arena), "mapping memory");
  if (!reply) return reply.error();
  auto mapped = ParseMapReply(*reply, id, arena->slots().size());
  if (!mapped) {
    worker.reset();
    return mapped.error();
  }
  addresses = std::move(*mapped);
  return std::nullopt;
}

std::optional<std::string> KernelSession::Impl::MakeReady() {
  if (!worker) {
    ++stats.restarts;
    if (const auto error = Start()) return "the worker could not be restarted: " + *error;
  }
  return addresses.empty() ? Map() : std::nullopt;
}

// The fault of the call that a worker did not answer. There is no worker afterwards.
Fault KernelSession::Impl::Autopsy(WorkerProcess::Received what, milliseconds limit,
                                   const PlacedCall& placed) {
  const bool gone = what == WorkerProcess::Received::kGone;
  const Death death = worker->Bury(gone ? kDyingGrace : milliseconds{0});
  worker.reset();
  // Who hangs once is not given ten times the deadline again.
  if (what == WorkerProcess::Received::kTimeout) settled = true;
  if (what == WorkerProcess::Received::kTimeout)
    return {FaultKind::kHang, 0, {}, 0, fmt::format("no answer within {} ms", limit.count())};
  if (what == WorkerProcess::Received::kOversized)
    return ProtocolFault("the worker sent an endless line");
  return ExplainCrash({death, arena->note(), arena->slots(), addresses, options.memory_limit_bytes},
                      placed);
}

// Runs as many jobs as there are frames in one round trip. Returns how many are settled: all up to
// and including the first that the worker did not survive, at least one.
size_t KernelSession::Impl::RunBatch(std::span<Job> jobs) {
  std::vector<PlacedCall> placed;
  for (size_t frame = 0; frame < std::min(jobs.size(), arena->frames()); ++frame)
    placed.push_back(arena->Place(*jobs[frame].call, frame, jobs[frame].fill));
  const int64_t id = next_id++;
  ++stats.round_trips;
  // Where sending fails, the first wait finds the worker gone.
  worker->Send(RunRequest(id, placed), Clock::now() + CallDeadline());
  for (size_t i = 0; i < placed.size(); ++i) {
    std::string line;
    const milliseconds limit = CallDeadline();
    const auto received = Receive(&line, limit);
    ++stats.calls;
    if (received != WorkerProcess::Received::kLine) {
      jobs[i].result = Faulty(Autopsy(received, limit, placed[i]));
      return i + 1;
    }
    const auto reply = ParseCallReply(line, id, i);
    if (!reply) {
      worker.reset();
      jobs[i].result = Faulty(ProtocolFault(reply.error()));
      return i + 1;
    }
    settled = true;
    jobs[i].result = Judge(*arena, placed[i], *reply);
  }
  return placed.size();
}

void KernelSession::Impl::RunJobs(std::span<Job> jobs) {
  if (jobs.empty()) return;
  const auto give_up = [&](const std::string& why) {
    for (Job& job : jobs) job.result = Faulty(ProtocolFault(why));
  };
  std::vector<const Call*> calls;
  for (const Job& job : jobs) calls.push_back(job.call);
  const auto changed = arena->Fit(calls);
  if (!changed) return give_up(changed.error());
  if (*changed) addresses.clear();
  while (!jobs.empty()) {
    if (const auto error = MakeReady()) return give_up(*error);
    jobs = jobs.subspan(RunBatch(jobs));
  }
}

KernelSession::KernelSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelSession::~KernelSession() = default;

tl::expected<std::unique_ptr<KernelSession>, std::string> KernelSession::Open(
    const KernelSpec& spec, const SessionOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(spec.library, error))
    return tl::unexpected(fmt::format("{}: no such file", spec.library));
  auto arena = Arena::Create();
  if (!arena) return tl::unexpected(arena.error());
  auto impl = std::make_unique<Impl>(spec, options, std::move(*arena));
  if (const auto failed = impl->Start()) return tl::unexpected(*failed);
  return std::unique_ptr<KernelSession>(new KernelSession(std::move(impl)));
}

const KernelIdentity& KernelSession::identity() const {
  return impl_->identity;
}
const KernelSpec& KernelSession::spec() const {
  return impl_->spec;
}
const SessionStats& KernelSession::stats() const {
  return impl_->stats;
}

std::vector<CallResult> KernelSession::Run(std::span<const Call> calls) {
  std::vector<CallResult> results(calls.size());
  std::vector<Job> jobs;
  std::vector<size_t> owners;  // the call of each job
  const auto add = [&](size_t i, std::byte fill) {
    jobs.push_back({&calls[i], fill, {}});
    owners.push_back(i);
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    if (const auto why = WhyMalformed(calls[i]))
      results[i] = Faulty(ProtocolFault("the harness made a malformed call: " + *why));
    else
      add(i, kFirstFill);
  }
  impl_->RunJobs(jobs);
  for (size_t j = 0; j < jobs.size(); ++j) results[owners[j]] = std::move(jobs[j].result);

  jobs.clear();
  owners.clear();
  for (size_t i = 0; i < calls.size(); ++i)
    if (!results[i].fault && results[i].status == CallStatus::kOk &&
        HasFillLeft(calls[i], results[i].outputs, kFirstFill))
      add(i, kSecondFill);
  impl_->RunJobs(jobs);
  for (size_t j = 0; j < jobs.size(); ++j) Confirm(jobs[j], &results[owners[j]]);
  return results;
}

std::string KernelSession::TakeOutput() {
  if (impl_->worker) impl_->worker->DrainOutput();
  return impl_->printed.Take();
}

}  // namespace attest
