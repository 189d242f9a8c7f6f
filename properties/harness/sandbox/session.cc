#include "properties/harness/sandbox/session.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/sandbox/answer.h"
#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/crash_report.h"
#include "properties/harness/sandbox/deadlines.h"
#include "properties/harness/sandbox/inspect.h"
#include "properties/harness/sandbox/leak.h"
#include "properties/harness/sandbox/locate.h"
#include "properties/harness/sandbox/protocol.h"
#include "properties/harness/sandbox/sanitized.h"
#include "properties/harness/sandbox/strided.h"
#include "properties/harness/sandbox/worker_process.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

// How often a wait looks whether it is wanted any longer.
constexpr milliseconds kStopInterval{50};
// How long a worker that closed its socket may take to be dead.
constexpr milliseconds kDyingGrace{500};
// How long a worker may take to destroy its kernel when the session closes.
constexpr milliseconds kClosingGrace{200};

}  // namespace

struct KernelSession::Impl {
  Impl(KernelSpec s, const SessionOptions& o, std::unique_ptr<Arena> a)
      : spec(std::move(s)), options(o), deadlines(o.deadline), arena(std::move(a)) {}
  ~Impl() {
    if (worker) worker->Bury(kClosingGrace);
  }

  // Each returns one line where the worker could not be brought to the state.
  std::optional<std::string> Start();
  std::optional<std::string> Map();
  std::optional<std::string> MakeReady();
  tl::expected<std::string, std::string> Ask(std::string request, std::string_view doing);

  std::string Request(int64_t id, std::span<const PlacedCall> calls, bool at_once = false) const {
    return takes_packed ? PackedRunRequest(id, calls, at_once) : RunRequest(id, calls, at_once);
  }
  void RunJobs(std::span<Job> jobs);
  size_t RunBatch(std::span<Job> jobs);
  std::vector<PlacedCall> Place(std::span<const Job> jobs);
  size_t RunApart(std::span<Job> jobs, size_t settled);
  size_t RunInTurn(std::span<const PlacedCall> placed, std::span<Job> jobs, size_t at_a_time);
  size_t RunPlaced(std::span<const PlacedCall> placed, std::span<Job> jobs);
  bool Settle(const PlacedCall& placed, const CallReply& reply, size_t* outputs, Job* job);
  void ConfirmWritten(std::span<const Call> calls, std::vector<CallResult>* results);
  tl::expected<std::vector<CallResult>, Unable> RunAllAtOnce(std::span<const Call> calls);
  std::vector<CallResult> JudgeAtOnce(const std::vector<PlacedCall>& placed);
  WorkerProcess::Received Receive(std::string* line, milliseconds limit);
  Fault Autopsy(WorkerProcess::Received what, milliseconds limit, const PlacedCall& placed);
  void LookForLeak(std::span<const Call> calls, std::vector<CallResult>* results);

  KernelSpec spec;
  SessionOptions options;
  Deadlines deadlines;
  KernelIdentity identity;
  SessionStats stats;
  OutputTail printed;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<WorkerProcess> worker;
  bool takes_packed = false;        // the worker does
  std::vector<uint64_t> addresses;  // of the slots in the worker; empty = not mapped
  bool interrupted = false;
  LeakDetector leaks;
  SettledOutputs settled_outputs;
  bool refreshed = false;  // the worker was ended by Refresh
  bool died = false;       // some request other than a run has ended the worker
  std::map<int, tl::expected<std::unique_ptr<KernelSession>, Unable>> siblings;  // by threads
  int64_t next_id = 1;
};

WorkerProcess::Received KernelSession::Impl::Receive(std::string* line, milliseconds limit) {
  const auto begin = Clock::now();
  const auto end = begin + limit;
  const auto next_look = [&] { return std::min(end, Clock::now() + kStopInterval); };
  auto until = next_look();
  auto received = worker->Receive(line, until);
  while (received == WorkerProcess::Received::kTimeout && until < end && !interrupted) {
    interrupted = options.stop != nullptr && options.stop->load();
    until = next_look();
    if (!interrupted) received = worker->Receive(line, until);
  }
  stats.seconds_in_worker += std::chrono::duration<double>(Clock::now() - begin).count();
  return received;
}

// One request with one reply, outside of calls. After an error there is no worker.
tl::expected<std::string, std::string> KernelSession::Impl::Ask(std::string request,
                                                                std::string_view doing) {
  const milliseconds limit = deadlines.ForFirst();
  std::string line;
  const bool sent = worker->Send(std::move(request), Clock::now() + limit);
  const auto received = sent ? Receive(&line, limit) : WorkerProcess::Received::kGone;
  if (received == WorkerProcess::Received::kLine) return line;
  std::string why;
  if (interrupted)
    why = "interrupted";
  else if (received == WorkerProcess::Received::kTimeout)
    why = fmt::format("no answer within {} ms", limit.count());
  else if (received == WorkerProcess::Received::kOversized)
    why = "an endless answer";
  else
    why = DescribeDeath(worker->Bury(kDyingGrace));
  worker.reset();
  died = !interrupted;
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
  deadlines.NoteStart();
  settled_outputs.Forget();
  leaks.Follow(worker->pid());
  const int64_t id = next_id++;
  const auto reply = Ask(LoadRequest(id, spec, options), "loading");
  if (!reply) return reply.error();
  auto loaded = ParseLoadReply(*reply, id);
  if (!loaded) {
    worker.reset();
    return loaded.error();
  }
  takes_packed = loaded->takes_packed;
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
    const bool is_asked = std::exchange(refreshed, false);
    stats.restarts += is_asked ? 0 : 1;
    const auto begin = Clock::now();
    const auto error = Start();
    if (is_asked) {
      stats.seconds_refreshing += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    if (error) return "the worker could not be restarted: " + *error;
  }
  return addresses.empty() ? Map() : std::nullopt;
}

// The fault of the call that a worker did not answer. There is no worker afterwards.
Fault KernelSession::Impl::Autopsy(WorkerProcess::Received what, milliseconds limit,
                                   const PlacedCall& placed) {
  const bool gone = what == WorkerProcess::Received::kGone;
  const Death death = worker->Bury(gone ? kDyingGrace : milliseconds{0});
  worker.reset();
  if (what == WorkerProcess::Received::kTimeout) {
    deadlines.NoteHang();
    return {FaultKind::kHang, 0, {}, 0, fmt::format("no answer within {} ms", limit.count())};
  }
  if (what == WorkerProcess::Received::kOversized)
    return ProtocolFault("the worker sent an endless line");
  return ExplainCrash({death, arena->note(), arena->slots(), addresses, options.memory_limit_bytes,
                       /*catches_signals=*/spec.worker.empty()},
                      placed);
}

// Judges a call that was computed; `outputs` is the number of outputs of the request before its own, which are added.
// False where the worker, which may harm others now, has been ended.
bool KernelSession::Impl::Settle(const PlacedCall& placed, const CallReply& reply, size_t* outputs,
                                 Job* job) {
  ++stats.calls;
  job->result = Judge(*arena, placed, reply);
  auto spoiled = FindSpoiled(*arena, placed, outputs);
  job->is_spoiled = spoiled.has_value();
  if (!job->result.fault) job->result.fault = std::move(spoiled);
  if (!job->result.fault) arena->KeepSlack(placed);
  if (!MayHarmOthers(job->result)) return true;
  worker.reset();
  return false;
}

// Has the placed calls, the jobs' first, run in one round trip. Returns how many are settled: all, those up to and
// including the first that the worker did not survive, or none of several where it computed all and was not heard of
// again: which of them took its voice is not known.
size_t KernelSession::Impl::RunPlaced(std::span<const PlacedCall> placed, std::span<Job> jobs) {
  const int64_t id = next_id++;
  ++stats.round_trips;
  arena->BeginRequest();
  auto asked = Clock::now();
  size_t outputs = 0;  // of the calls that are settled
  // Where sending fails, the first wait finds the worker gone.
  worker->Send(Request(id, placed), Clock::now() + deadlines.ForCall());
  for (size_t i = 0; i < placed.size();) {
    std::string line;
    const milliseconds limit = deadlines.ForCall();
    const auto received = Receive(&line, limit);
    if (received != WorkerProcess::Received::kLine) {
      if (arena->note().computed >= placed.size() && placed.size() > 1) {
        worker.reset();
        return 0;
      }
      const auto computed = std::min(size_t{arena->note().computed}, placed.size() - 1);
      for (; i < computed; ++i)
        if (!Settle(placed[i], CallReply{}, &outputs, &jobs[i])) return i + 1;
      ++stats.calls;
      jobs[i].result = Faulty(Autopsy(received, limit, placed[i]));
      return i + 1;
    }
    const auto reply = ParseCallReply(line, id, i, placed.size());
    if (!reply) {
      worker.reset();
      jobs[i].result = Faulty(ProtocolFault(reply.error()));
      return i + 1;
    }
    const auto took = Clock::now() - std::exchange(asked, Clock::now());
    deadlines.NoteAnswer(std::chrono::ceil<milliseconds>(took));
    for (; i <= reply->through; ++i)
      if (!Settle(placed[i], *reply, &outputs, &jobs[i])) return i + 1;
  }
  return placed.size();
}

// Those that there are slots for.
std::vector<PlacedCall> KernelSession::Impl::Place(std::span<const Job> jobs) {
  std::vector<PlacedCall> placed;
  arena->Free();
  for (const Job& job : jobs) {
    auto one = arena->Place(*job.call, job.fill);
    if (!one) break;
    placed.push_back(std::move(*one));
  }
  return placed;
}

// Has the placed calls, the jobs', run so many a round trip. Returns how many are settled: all, or those up to and
// including the first that the worker did not survive.
size_t KernelSession::Impl::RunInTurn(std::span<const PlacedCall> placed, std::span<Job> jobs,
                                      size_t at_a_time) {
  for (size_t done = 0; done < placed.size();) {
    const size_t count = std::min(at_a_time, placed.size() - done);
    done += RunPlaced(placed.subspan(done, count), jobs.subspan(done));
    if (!worker) return done;
  }
  // While one call was computed the kernel had no business with the outputs of those before it.
  for (size_t i = 0; i < placed.size(); ++i)
    if (!jobs[i].result.fault)
      jobs[i].result.fault = FindLateWrite(*arena, placed[i], jobs[i].result.outputs);
  return placed.size();
}

// Runs jobs again one a round trip, so that each output is copied before the next call: one of the first `settled` has
// been spoiled by a later call, and now it shows where. Returns how many are settled; as before where it does not show.
size_t KernelSession::Impl::RunApart(std::span<Job> jobs, size_t settled) {
  worker.reset();
  if (MakeReady()) return settled;
  std::vector<Job> again;
  for (const Job& job : jobs) again.push_back({job.call, job.fill, {}});
  const size_t done = RunInTurn(Place(again), again, 1);
  worker.reset();
  const auto is_late = [](const Job& job) {
    return job.result.fault && job.result.fault->kind == FaultKind::kLateWrite;
  };
  if (std::ranges::none_of(std::span(again).first(done), is_late)) return settled;
  std::ranges::move(std::span(again).first(done), jobs.begin());
  return done;
}

// Runs as many jobs as there are slots for. Returns how many are settled: at least one.
size_t KernelSession::Impl::RunBatch(std::span<Job> jobs) {
  if (auto late = settled_outputs.FindLateWrite(*arena)) {
    worker.reset();
    settled_outputs.Forget();
    jobs[0].result = Faulty(std::move(*late));
    return 1;
  }
  std::vector<PlacedCall> placed = Place(jobs);
  jobs = jobs.first(placed.size());
  size_t done = RunInTurn(placed, jobs, identity.notes_digests ? placed.size() : 1);
  if (done == 0) {
    if (const auto error = MakeReady()) {
      jobs[0].result = Faulty(ProtocolFault(*error));
      return 1;
    }
    placed = Place(jobs);
    done = RunInTurn(placed, jobs.first(placed.size()), 1);
  }
  if (std::ranges::any_of(jobs.first(done), &Job::is_spoiled)) return RunApart(jobs, done);
  if (!worker) return done;
  settled_outputs.Keep(*arena, placed);
  if (std::ranges::any_of(jobs, MayHarmOthers, &Job::result)) worker.reset();
  return done;
}

void KernelSession::Impl::RunJobs(std::span<Job> jobs) {
  if (jobs.empty()) return;
  const auto give_up = [&](const std::string& why) {
    for (Job& job : jobs) job.result = Faulty(ProtocolFault(why));
  };
  std::vector<const Call*> calls;
  for (const Job& job : jobs) calls.push_back(job.call);
  if (!worker) arena->Clear();
  const auto changed = arena->Fit(calls);
  if (!changed) return give_up(changed.error());
  if (*changed) addresses.clear();
  while (!jobs.empty()) {
    if (interrupted) return give_up("interrupted");
    if (const auto error = MakeReady()) return give_up(*error);
    jobs = jobs.subspan(RunBatch(jobs));
  }
}

// Runs those calls again that seem to have left something unwritten, over another fill.
void KernelSession::Impl::ConfirmWritten(std::span<const Call> calls,
                                         std::vector<CallResult>* results) {
  std::vector<Job> jobs;
  std::vector<CallResult*> owners;  // of each job
  for (size_t i = 0; i < calls.size(); ++i) {
    CallResult& result = (*results)[i];
    if (result.fault || result.status != CallStatus::kOk) continue;
    if (!HasFillLeft(calls[i], result.outputs, kFirstFill)) continue;
    jobs.push_back({&calls[i], kSecondFill, {}});
    owners.push_back(&result);
  }
  RunJobs(jobs);
  for (size_t j = 0; j < jobs.size(); ++j) Confirm(jobs[j], owners[j]);
}

// Where memory has grown and all went well, whether it grows with each call.
void KernelSession::Impl::LookForLeak(std::span<const Call> calls,
                                      std::vector<CallResult>* results) {
  // Sanitizers keep freed memory, and so do languages that collect it later.
  if (kSanitized || !spec.worker.empty() || calls.empty() || !worker) return;
  const auto is_fine = [](const CallResult& result) {
    return !result.fault && result.status == CallStatus::kOk;
  };
  if (!std::ranges::all_of(*results, is_fine) || !leaks.Suspects(stats.calls)) return;
  const auto repeat = [&](int64_t times) {
    std::vector<Job> jobs(static_cast<size_t>(times), Job{&calls[0], kFirstFill, {}});
    RunJobs(jobs);
    return std::ranges::all_of(jobs, is_fine, &Job::result);
  };
  if (auto fault = leaks.Examine(repeat)) results->front().fault = std::move(*fault);
}

// The answers to a run at once. A worker that does not survive it leaves every call with the fault,
// for which of them it was nobody can say.
std::vector<CallResult> KernelSession::Impl::JudgeAtOnce(const std::vector<PlacedCall>& placed) {
  const int64_t id = next_id++;
  const milliseconds limit = deadlines.ForCall() * static_cast<int64_t>(placed.size());
  const auto all_with = [&](Fault fault) {
    worker.reset();
    return std::vector<CallResult>(placed.size(), Faulty(std::move(fault)));
  };
  ++stats.round_trips;
  stats.calls += std::ssize(placed);
  arena->BeginRequest();
  const auto asked = Clock::now();
  worker->Send(Request(id, placed, /*at_once=*/true), Clock::now() + limit);
  std::vector<CallResult> results;
  while (results.size() < placed.size()) {
    std::string line;
    const auto received = Receive(&line, limit);
    if (received != WorkerProcess::Received::kLine) {
      PlacedCall all = placed[results.size()];  // the address of a stray access may be any call's
      for (const PlacedCall& other : placed)
        all.tensors.insert(all.tensors.end(), other.tensors.begin(), other.tensors.end());
      return all_with(Autopsy(received, limit, all));
    }
    const auto reply = ParseCallReply(line, id, results.size(), placed.size());
    if (!reply) return all_with(ProtocolFault(reply.error()));
    deadlines.NoteAnswer(std::chrono::ceil<milliseconds>(Clock::now() - asked));
    for (size_t i = results.size(); i <= reply->through; ++i)
      results.push_back(Judge(*arena, placed[i], *reply));
  }
  return results;
}

tl::expected<std::vector<CallResult>, Unable> KernelSession::Impl::RunAllAtOnce(
    std::span<const Call> calls) {
  std::vector<const Call*> fitted;
  for (const Call& call : calls) fitted.push_back(&call);
  if (!worker) arena->Clear();
  const auto changed = arena->Fit(fitted);
  if (!changed) return tl::unexpected(Unable{changed.error()});
  if (*changed) addresses.clear();
  if (const auto error = MakeReady())
    return std::vector<CallResult>(calls.size(), Faulty(ProtocolFault(*error)));
  settled_outputs.Forget();
  std::vector<PlacedCall> placed;
  for (const Call& call : calls) {
    auto one = arena->Place(call, kFirstFill);
    if (!one) return tl::unexpected(Unable{"the calls are too large to be made at the same time"});
    placed.push_back(std::move(*one));
  }
  return JudgeAtOnce(placed);
}

KernelSession::KernelSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelSession::~KernelSession() = default;

tl::expected<std::unique_ptr<KernelSession>, std::string> KernelSession::Open(
    const KernelSpec& spec, const SessionOptions& options) {
  auto opened = TryOpen(spec, options);
  if (!opened) return tl::unexpected(opened.error().reason);
  return std::move(*opened);
}

tl::expected<std::unique_ptr<KernelSession>, Unable> KernelSession::TryOpen(
    const KernelSpec& spec, const SessionOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(spec.library, error))
    return tl::unexpected(Unable{fmt::format("{}: no such file", spec.library)});
  auto arena = Arena::Create();
  if (!arena) return tl::unexpected(Unable{arena.error()});
  auto impl = std::make_unique<Impl>(spec, options, std::move(*arena));
  if (const auto failed = impl->Start()) return tl::unexpected(Unable{*failed, impl->died});
  return std::unique_ptr<KernelSession>(new KernelSession(std::move(impl)));
}

tl::expected<KernelSession*, Unable> KernelSession::WithThreads(int threads) {
  if (threads == impl_->options.threads) return this;
  if (!impl_->identity.takes_threads)
    return tl::unexpected(Unable{"the kernel's worker hands it no thread count"});
  auto found = impl_->siblings.find(threads);
  if (found == impl_->siblings.end()) {
    SessionOptions options = impl_->options;
    options.threads = threads;
    found = impl_->siblings.emplace(threads, TryOpen(impl_->spec, options)).first;
  }
  auto& sibling = found->second;
  if (!sibling)
    return tl::unexpected(
        Unable{fmt::format("with {} threads: {}", threads, sibling.error().reason),
               sibling.error().is_fault});
  if ((*sibling)->identity().contract_json != impl_->identity.contract_json)
    return tl::unexpected(
        Unable{fmt::format("with {} threads the kernel has another contract", threads)});
  return sibling->get();
}

const KernelIdentity& KernelSession::identity() const {
  return impl_->identity;
}
const KernelSpec& KernelSession::spec() const {
  return impl_->spec;
}
void KernelSession::SetHurried(bool hurried) {
  impl_->deadlines.SetHurried(hurried);
  for (auto& [threads, sibling] : impl_->siblings)
    if (sibling) (*sibling)->SetHurried(hurried);
}
void KernelSession::Refresh() {
  impl_->refreshed = impl_->worker != nullptr;
  impl_->worker.reset();
  for (auto& [threads, sibling] : impl_->siblings)
    if (sibling) (*sibling)->Refresh();
}
bool KernelSession::interrupted() const {
  return impl_->interrupted || std::ranges::any_of(impl_->siblings, [](const auto& sibling) {
           return sibling.second.has_value() && (*sibling.second)->interrupted();
         });
}
const SessionStats& KernelSession::stats() const {
  return impl_->stats;
}

std::vector<CallResult> KernelSession::Run(std::span<const Call> calls) {
  std::vector<CallResult> results(calls.size());
  std::vector<Job> jobs;
  std::vector<size_t> owners;  // the call of each job
  for (size_t i = 0; i < calls.size(); ++i) {
    if (const auto why = WhyMalformed(calls[i])) {
      results[i] = Faulty(ProtocolFault("the harness made a malformed call: " + *why));
    } else {
      jobs.push_back({&calls[i], kFirstFill, {}});
      owners.push_back(i);
    }
  }
  impl_->RunJobs(jobs);
  for (size_t j = 0; j < jobs.size(); ++j) results[owners[j]] = std::move(jobs[j].result);
  impl_->ConfirmWritten(calls, &results);
  impl_->LookForLeak(calls, &results);
  return results;
}

tl::expected<std::vector<CallResult>, Unable> KernelSession::RunAtOnce(
    std::span<const Call> calls) {
  if (!impl_->identity.can_run_at_once)
    return tl::unexpected(Unable{"the kernel's worker computes one call at a time"});
  for (const Call& call : calls)
    if (WhyMalformed(call)) return Run(calls);  // which says so
  const auto has_fault = [](const CallResult& result) { return result.fault.has_value(); };
  auto results = impl_->RunAllAtOnce(calls);
  if (!results) return results;
  if (std::ranges::none_of(*results, has_fault)) {
    impl_->ConfirmWritten(calls, &*results);
    return results;
  }
  std::vector<CallResult> alone = Run(calls);
  if (std::ranges::any_of(alone, has_fault)) return alone;
  for (CallResult& result : *results)
    if (result.fault)
      result.fault->detail +=
          fmt::format(" (while {} calls ran at once; none of them fails alone)", calls.size());
  return results;
}

std::string KernelSession::TakeOutput() {
  if (impl_->worker) impl_->worker->DrainOutput();
  std::string output = impl_->printed.Take();
  for (auto& [threads, sibling] : impl_->siblings)
    if (sibling) output += (*sibling)->TakeOutput();
  return output;
}

}  // namespace attest
