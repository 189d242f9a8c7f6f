#include "properties/harness/sandbox/session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <attest/kernel.h>
#include <fmt/format.h>

#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/autopsy.h"
#include "properties/harness/sandbox/call_inspection.h"
#include "properties/harness/sandbox/installation.h"
#include "properties/harness/sandbox/protocol.h"
#include "properties/harness/sandbox/strided.h"
#include "properties/harness/sandbox/worker_process.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

// All ones is NaN in every floating type, so that a kernel which adds to its output shows; the
// second is finite in all of them. An element that keeps both has not been written.
constexpr std::byte kFirstFill{0xFF};
constexpr std::byte kSecondFill{0xA5};
// Loading a library, starting its threads, its first call: ten times the deadline of a call.
constexpr int kSlowStart = 10;
constexpr milliseconds kGrace{200};  // for destroy() when a session is closed

Fault PlainFault(FaultKind kind, std::string detail) {
  return {kind, 0, {}, 0, std::move(detail)};
}

CallResult Faulty(Fault fault) {
  CallResult result;
  result.status = CallStatus::kFault;
  result.fault = std::move(fault);
  return result;
}

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

// A fault that the reply itself tells of.
std::optional<Fault> FaultOf(const CallReply& reply) {
  if (reply.out_of_memory) {
    return PlainFault(FaultKind::kMemoryLimit,
                      "ran out of memory (std::bad_alloc through the C ABI)");
  }
  if (!reply.thrown.empty()) {
    return PlainFault(FaultKind::kCrash,
                      fmt::format("threw an exception through the C ABI: {}", reply.thrown));
  }
  if (!reply.float_environment.empty()) {
    return PlainFault(FaultKind::kFloatEnvironment,
                      fmt::format("changed the floating-point environment and left it so: {}",
                                  reply.float_environment));
  }
  if (!StatusOf(reply.status)) {
    return PlainFault(FaultKind::kProtocol,
                      fmt::format("returned {}, which is no attest_status", reply.status));
  }
  return std::nullopt;
}

}  // namespace

struct KernelSession::Impl {
  KernelSpec spec;
  SessionOptions options;
  KernelIdentity identity;
  SessionStats stats;
  OutputTail output;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<WorkerProcess> worker;
  std::vector<uint64_t> addresses;  // of the arena's slots in the worker; empty = not mapped
  bool fresh = true;                // no call has come back from this worker yet
  int64_t next_id = 1;

  Clock::time_point Deadline(bool slow) const {
    return Clock::now() + options.deadline * (slow ? kSlowStart : 1);
  }

  tl::expected<void, std::string> StartWorker();
  tl::expected<void, std::string> MapArena();
  std::string DescribeEnd(WorkerProcess::Received received, const std::string& during);
  void DropWorker() {
    worker.reset();
    addresses.clear();
  }

  size_t RunSome(std::span<const Call> calls, std::byte fill, std::vector<CallResult>* results,
                 std::vector<FilledElements>* filled);
  CallResult Conclude(const CallReply& reply, const PlacedCall& placed, FilledElements* filled);
  Fault Bury(WorkerProcess::Received received, const std::string& line, const PlacedCall& placed);
  void RunAll(std::span<const Call> calls, std::byte fill, std::vector<CallResult>* results,
              std::vector<FilledElements>* filled);
  void CheckUnwritten(std::span<const Call> calls, const std::vector<FilledElements>& filled,
                      std::vector<CallResult>* results);
};

tl::expected<void, std::string> KernelSession::Impl::StartWorker() {
  arena->ClearNote();
  auto started = WorkerProcess::Start(WorkerProgram().string(), spec.text, arena->fd(), &output);
  if (!started) return tl::unexpected(started.error());
  worker = std::move(*started);
  fresh = true;
  addresses.clear();
  const int64_t id = next_id++;
  const auto deadline = Deadline(/*slow=*/true);
  std::string line;
  auto received = WorkerProcess::Received::kGone;
  if (worker->Send(LoadRequest(id, spec, options), deadline)) {
    received = worker->Receive(&line, deadline);
  }
  if (received != WorkerProcess::Received::kLine) {
    return tl::unexpected(DescribeEnd(received, "while loading"));
  }
  auto loaded = ParseLoadReply(line, id);
  if (!loaded) {
    DropWorker();
    return tl::unexpected(loaded.error());
  }
  identity = std::move(*loaded);
  return {};
}

tl::expected<void, std::string> KernelSession::Impl::MapArena() {
  const int64_t id = next_id++;
  const auto deadline = Deadline(/*slow=*/true);
  std::string line;
  auto received = WorkerProcess::Received::kGone;
  if (worker->Send(MapRequest(id, *arena), deadline)) received = worker->Receive(&line, deadline);
  if (received != WorkerProcess::Received::kLine) {
    return tl::unexpected(DescribeEnd(received, "between calls"));
  }
  auto mapped = ParseMapReply(line, id, arena->slots().size());
  if (!mapped) {
    DropWorker();
    return tl::unexpected(mapped.error());
  }
  addresses = std::move(*mapped);
  return {};
}

// Why no reply came outside a call; the worker is gone afterwards.
std::string KernelSession::Impl::DescribeEnd(WorkerProcess::Received received,
                                             const std::string& during) {
  std::string text;
  if (received == WorkerProcess::Received::kTimeout) {
    text = fmt::format("{}: did not finish {} within {} ms", spec.text, during,
                       (options.deadline * kSlowStart).count());
  } else if (received == WorkerProcess::Received::kOversized) {
    text = fmt::format("{}: the worker answered nonsense {}", spec.text, during);
  } else {
    const Death death = worker->Bury(kGrace);
    text =
        death.kind == Death::Kind::kSignaled
            ? fmt::format("{}: crashed {} with {}", spec.text, during, SignalName(death.code))
            : fmt::format("{}: ended its process {} (exit code {})", spec.text, during, death.code);
  }
  DropWorker();
  return text;
}

// Judges one reply; `filled` gets what still holds the fill.
CallResult KernelSession::Impl::Conclude(const CallReply& reply, const PlacedCall& placed,
                                         FilledElements* filled) {
  CallResult result;
  result.message = reply.message;
  result.status = StatusOf(reply.status).value_or(CallStatus::kFault);
  result.fault = FaultOf(reply);
  if (!result.fault) result.fault = FindStrayChange(*arena, placed);
  if (result.status == CallStatus::kOk) {
    result.outputs = TakeOutputs(*arena, placed);
    *filled = FindFilled(*arena, placed);
  }
  return result;
}

// The fault of a call that no proper reply came for; the worker is gone afterwards.
Fault KernelSession::Impl::Bury(WorkerProcess::Received received, const std::string& line,
                                const PlacedCall& placed) {
  Fault fault;
  switch (received) {
    case WorkerProcess::Received::kTimeout:
      fault = PlainFault(FaultKind::kHang,
                         fmt::format("did not return within {} ms",
                                     (options.deadline * (fresh ? kSlowStart : 1)).count()));
      break;
    case WorkerProcess::Received::kOversized:
      fault = PlainFault(FaultKind::kProtocol, "answered a line without end");
      break;
    case WorkerProcess::Received::kLine:
      fault = PlainFault(FaultKind::kProtocol, line);
      break;
    case WorkerProcess::Received::kGone: {
      const Death death = worker->Bury(kGrace);
      fault = Autopsy({death, arena->note(), arena->slots(), addresses, options.memory_limit_bytes},
                      placed);
      break;
    }
  }
  DropWorker();
  return fault;
}

// Runs as many of the calls as go into one round trip and come back; a death ends it early, with
// the culprit's result included. Returns how many results were added, at least one.
size_t KernelSession::Impl::RunSome(std::span<const Call> calls, std::byte fill,
                                    std::vector<CallResult>* results,
                                    std::vector<FilledElements>* filled) {
  const auto give_up = [&](const std::string& why) {
    results->push_back(Faulty(PlainFault(FaultKind::kProtocol, why)));
    filled->emplace_back();
    return size_t{1};
  };
  if (auto why = WhyMalformed(calls[0]))
    return give_up("the harness made a malformed call: " + *why);
  const auto malformed =
      std::ranges::find_if(calls, [](const Call& call) { return WhyMalformed(call).has_value(); });
  calls = calls.subspan(0, static_cast<size_t>(malformed - calls.begin()));
  const auto changed = arena->Fit(calls);
  if (!changed) return give_up(changed.error());
  if (*changed) addresses.clear();
  if (!worker) {
    ++stats.restarts;
    if (auto started = StartWorker(); !started) return give_up(started.error());
  }
  if (addresses.empty()) {
    if (auto mapped = MapArena(); !mapped) return give_up(mapped.error());
  }
  calls = calls.subspan(0, std::min(calls.size(), arena->frames()));
  std::vector<PlacedCall> placed;
  for (size_t n = 0; n < calls.size(); ++n) placed.push_back(arena->Place(calls[n], n, fill));
  const int64_t id = next_id++;
  ++stats.round_trips;
  const auto begin = Clock::now();
  bool sent = worker->Send(RunRequest(id, placed), Deadline(fresh));
  size_t done = 0;
  while (done < calls.size()) {
    std::string line;
    auto received = WorkerProcess::Received::kGone;
    if (sent) received = worker->Receive(&line, Deadline(fresh));
    ++stats.calls;
    filled->emplace_back();
    if (received == WorkerProcess::Received::kLine) {
      const auto reply = ParseCallReply(line, id, done);
      if (reply) {
        results->push_back(Conclude(*reply, placed[done], &filled->back()));
        fresh = false;
        ++done;
        continue;
      }
      line = reply.error();
    }
    results->push_back(Faulty(Bury(received, line, placed[done])));
    ++done;
    break;
  }
  stats.seconds_in_worker += std::chrono::duration<double>(Clock::now() - begin).count();
  return done;
}

void KernelSession::Impl::RunAll(std::span<const Call> calls, std::byte fill,
                                 std::vector<CallResult>* results,
                                 std::vector<FilledElements>* filled) {
  while (!calls.empty()) calls = calls.subspan(RunSome(calls, fill, results, filled));
}

// Runs the calls that seem to have left something unwritten again over another fill.
void KernelSession::Impl::CheckUnwritten(std::span<const Call> calls,
                                         const std::vector<FilledElements>& filled,
                                         std::vector<CallResult>* results) {
  for (size_t n = 0; n < calls.size(); ++n) {
    CallResult& result = (*results)[n];
    const bool suspect = std::ranges::any_of(filled[n], [](const auto& f) { return !f.empty(); });
    if (result.status != CallStatus::kOk || result.fault || !suspect) continue;
    std::vector<CallResult> again;
    std::vector<FilledElements> refilled;
    RunAll(calls.subspan(n, 1), kSecondFill, &again, &refilled);
    if (again[0].fault) {
      result.fault = again[0].fault;
    } else if (again[0].status == CallStatus::kOk) {
      result.fault = FindUnwritten(calls[n], filled[n], refilled[0]);
    }
  }
}

KernelSession::KernelSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

KernelSession::~KernelSession() {
  if (impl_->worker) impl_->worker->Bury(kGrace);
}

tl::expected<std::unique_ptr<KernelSession>, std::string> KernelSession::Open(
    const KernelSpec& spec, const SessionOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->spec = spec;
  impl->options = options;
  auto arena = Arena::Create();
  if (!arena) return tl::unexpected(arena.error());
  impl->arena = std::move(*arena);
  if (auto started = impl->StartWorker(); !started) return tl::unexpected(started.error());
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
  std::vector<CallResult> results;
  std::vector<FilledElements> filled;
  impl_->RunAll(calls, kFirstFill, &results, &filled);
  impl_->CheckUnwritten(calls, filled, &results);
  return results;
}

std::string KernelSession::TakeOutput() {
  if (impl_->worker) impl_->worker->DrainOutput();
  return impl_->output.Take();
}

}  // namespace attest
