#include "properties/bench/harness.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "fuzz/in_process.h"
#include "impl/reference/bound.h"
#include "impl/reference/extended_reference.h"
#include "impl/tiled/tiled.h"
#include "properties/bench/cpu_time.h"
#include "properties/bench/oracle_tables.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/random.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/lower/lower.h"
#include "properties/harness/runner/call_runner.h"
#include "properties/harness/sandbox/session.h"
#include "properties/property.h"

namespace attest {
namespace {

enum Stage {
  kDraw,
  kDerive,
  kMaterialise,
  kLower,
  kArena,
  kKernel,
  kReference,
  kBound,
  kCompare,
  kStages
};
constexpr std::array<std::string_view, kStages> kStageNames = {
    "draw", "derive", "materialise", "lower", "arena", "kernel", "reference", "bound", "compare"};
constexpr int kRepetitions = 3;  // of each measurement that is not by stages; the best counts

// The kernel with a clock around it, while stages are timed: what a call costs beside it is the arena's.
bool times_stages = false;
double kernel_seconds = 0;
attest_status TimedForward(void* kernel, attest_call* call) {
  if (!times_stages) return TiledKernelTable()->forward(kernel, call);
  const double start = ThreadCpuSeconds();
  const attest_status status = TiledKernelTable()->forward(kernel, call);
  kernel_seconds += ThreadCpuSeconds() - start;
  return status;
}
const attest_kernel_table* TimedTable() {
  static const attest_kernel_table kTable = [] {
    attest_kernel_table table = *TiledKernelTable();
    table.forward = TimedForward;
    return table;
  }();
  return &kTable;
}

// A case that a property has something to say about.
struct Drawn {
  const Property* property;
  Case c;
  Derived derived;
};

// Score products of all the calls that the case makes: what a kernel's time grows with.
int64_t Products(const Drawn& drawn) {
  int64_t sum = 0;
  for (const Case& c : drawn.derived.cases) {
    const Problem& p = c.problem;
    sum += p.batch * p.q_heads * p.q_len * p.kv_len * (p.head_dim + p.value_dim);
  }
  return sum;
}
constexpr int64_t kSmall = 16384;  // products

struct StageTimes {
  std::array<double, kStages> seconds{};
  int64_t cases = 0, calls = 0;
};

// Runs work, adding its CPU time to one stage.
class Timer {
 public:
  explicit Timer(StageTimes& times) : times_(times) {}
  template <typename Work>
  auto operator()(Stage stage, const Work& work) {
    const double start = ThreadCpuSeconds();
    auto result = work();
    times_.seconds.at(stage) += ThreadCpuSeconds() - start;
    return result;
  }

  void Move(Stage from, Stage to, double seconds) {
    times_.seconds.at(from) -= seconds;
    times_.seconds.at(to) += seconds;
  }

 private:
  StageTimes& times_;
};

Case DrawNumber(const Property& property, int64_t number, const Contract& contract,
                const HarnessOptions& options) {
  uint64_t seed = MixIn(options.seed, static_cast<uint64_t>(number));
  for (const char letter : property.id) seed = MixIn(seed, static_cast<unsigned char>(letter));
  return DrawCase(seed, static_cast<int>(number * 37 % 101), contract);
}

// The bound of every row, as far as the judge looks: what it finds ready afterwards is the oracle's.
bool ComputeBounds(const Drawn& drawn, Oracle& oracle, size_t i) {
  ErrorBound& bound = oracle.BoundOf(i);
  ForEachRow(drawn.derived.cases[i].problem, [&](const Row& row) {
    if (bound.IsUnconstrained(row)) return;
    bound.StateOf(row);
    bound.FloorOf(row);
  });
  return true;
}

// The stages of one case, each by itself; nothing where the case is not run to its end.
void TimeStages(const Drawn& drawn, const Contract& contract, CallRunner& runner, Timer& timer) {
  const std::vector<Case>& cases = drawn.derived.cases;
  Oracle oracle(cases, contract);
  for (size_t i = 0; i < cases.size(); ++i) {
    timer(kMaterialise, [&] { return &oracle.InputsOf(i); });
  }
  std::vector<Lowered> lowered;
  std::vector<Call> calls;
  for (size_t i = 0; i < cases.size(); ++i) {
    auto one = timer(kLower, [&] { return Lower(cases[i], oracle.InputsOf(i), contract); });
    if (!one) return;
    lowered.push_back(std::move(*one));
    calls.push_back(lowered.back().call);
  }
  const double before = kernel_seconds;
  const auto results = timer(kArena, [&] { return runner.Run(CallSetting{}, calls); });
  timer.Move(kArena, kKernel, kernel_seconds - before);
  if (!results) return;
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < cases.size(); ++i) {
    outcomes.push_back(
        timer(kCompare, [&] { return Lift(cases[i], contract, lowered[i], (*results)[i]); }));
    if (outcomes.back().status != OutcomeStatus::kComputed) return;
    timer(kReference, [&] { return &oracle.ReferenceOf(i); });
    timer(kBound, [&] { return ComputeBounds(drawn, oracle, i); });
  }
  const Evidence evidence{contract, cases, outcomes, oracle};
  const auto judge = [&] {
    drawn.property->judge(evidence);
    for (size_t i = 0; i < cases.size(); ++i) MatchesReference(evidence, i, "it does not match");
    return true;
  };
  // The second time nothing of the bound is left to be computed: that is what comparing costs.
  timer(kBound, judge);
  const double start = ThreadCpuSeconds();
  judge();
  timer.Move(kBound, kCompare, ThreadCpuSeconds() - start);
}

struct Mix {
  std::string_view name;
  std::vector<Drawn> cases;
  StageTimes times;
};

// What the plan draws and can be run in the usual way, into `all`, and the small ones into `small` too.
void DrawMix(const Contract& contract, const HarnessOptions& options, Mix& all, Mix& small) {
  for (const Property& property : AllProperties()) {
    if (!property.unsupported(contract).empty()) continue;
    for (int64_t number = 0; number < options.cases; ++number) {
      StageTimes times;
      Timer timer(times);
      const Case c = timer(kDraw, [&] { return DrawNumber(property, number, contract, options); });
      Derived derived = timer(kDerive, [&] { return property.derive(c, contract); });
      if (!derived.not_applicable.empty() || !derived.settings.empty()) {
        for (const Stage stage : {kDraw, kDerive}) all.times.seconds[stage] += times.seconds[stage];
        continue;
      }
      Drawn drawn{&property, c, std::move(derived)};
      const bool is_small = Products(drawn) <= kSmall;
      for (Mix* mix : {&all, &small}) {
        if (mix == &small && !is_small) continue;
        for (const Stage stage : {kDraw, kDerive})
          mix->times.seconds[stage] += times.seconds[stage];
        mix->times.calls += std::ssize(drawn.derived.cases);
        ++mix->times.cases;
        mix->cases.push_back(drawn);
      }
    }
  }
}

// CPU seconds, those of child processes too, for every case from RunCase's one end to the other.
double SecondsThrough(const Mix& mix, const Contract& contract, CallRunner& runner) {
  const double start = CpuSecondsWithChildren();
  for (const Drawn& drawn : mix.cases) RunCase(*drawn.property, drawn.c, contract, runner);
  return CpuSecondsWithChildren() - start;
}

// Likewise, through a worker: as many cases of a property together as a run has.
double SecondsThrough(const Mix& mix, const Contract& contract, KernelSession& session) {
  std::vector<std::vector<Case>> parts;
  std::vector<const Property*> properties;
  for (const Drawn& drawn : mix.cases) {
    if (parts.empty() || properties.back() != drawn.property ||
        std::ssize(parts.back()) == kCasesTogether) {
      properties.push_back(drawn.property);
      parts.emplace_back();
    }
    parts.back().push_back(drawn.c);
  }
  const double start = CpuSecondsWithChildren();
  for (size_t n = 0; n < parts.size(); ++n) RunCases(*properties[n], parts[n], contract, session);
  return CpuSecondsWithChildren() - start;
}

void PrintMix(Mix& mix, const Contract& contract, CallRunner& here, KernelSession& worker) {
  Timer timer(mix.times);
  times_stages = true;
  for (const Drawn& drawn : mix.cases) TimeStages(drawn, contract, here, timer);
  times_stages = false;
  const auto cases = static_cast<double>(mix.times.cases);
  fmt::print("{} ({} cases, {:.1f} calls a case):", mix.name, mix.times.cases,
             static_cast<double>(mix.times.calls) / cases);
  double sum = 0;
  for (const double seconds : mix.times.seconds) sum += seconds;
  for (size_t s = 0; s < kStages; ++s) {
    fmt::print(" {} {:.1f} us ({:.0f} %)", kStageNames[s], 1e6 * mix.times.seconds[s] / cases,
               100 * mix.times.seconds[s] / sum);
  }
  const auto& seconds = mix.times.seconds;
  const double arithmetic = seconds[kKernel] + seconds[kReference] + seconds[kBound];
  double in_process = HUGE_VAL, through_worker = HUGE_VAL;
  for (int n = 0; n < kRepetitions; ++n) {
    in_process = std::min(in_process, SecondsThrough(mix, contract, here));
    through_worker = std::min(through_worker, SecondsThrough(mix, contract, worker));
  }
  fmt::print("\n  outside kernel, reference and bound: {:.0f} %", 100 * (1 - arithmetic / sum));
  fmt::print(
      "\n  in this process {:.0f} cases/CPU s ({:.1f} us), through the worker {:.0f} ({:.1f} us, "
      "{:+.0f} %)\n",
      cases / in_process, 1e6 * in_process / cases, cases / through_worker,
      1e6 * through_worker / cases, 100 * (through_worker / in_process - 1));
}

// This process and its workers on one core, as the figures are meant: what it costs to wake another is the
// machine's.
void StayOnOneCore() {
  const int core = ::sched_getcpu();
  if (core < 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(core), &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

}  // namespace

bool PrintHarness(const HarnessOptions& options) {
  StayOnOneCore();
  const auto spec = ResolveKernel("tiled");
  auto session = spec ? KernelSession::Open(*spec) : tl::unexpected(spec.error());
  const auto plugin = MakePlugin(TimedTable(), {}, /*threads=*/1);
  auto here = plugin ? InProcessRunner::Create(*plugin) : tl::unexpected(plugin.error());
  if (!session || !here) {
    fmt::print("not measured: {}\n", session ? here.error() : session.error());
    return false;
  }
  const auto contract = ParseContract(plugin->contract);
  Mix all{"all cases", {}, {}}, small{"small cases", {}, {}};
  DrawMix(*contract, options, all, small);
  fmt::print(
      "What a case of --plan ci costs on kernel tiled, CPU time (this process and the worker "
      "together, on one\ncore).\nStages are timed one by one; arena holds the laying out of "
      "tensors and the look "
      "at all memory after\na call, compare the lifting of outputs. Small: at most {} score "
      "products "
      "over all the calls of the case.\nThe best of {} runs counts.\n\n",
      kSmall, kRepetitions);
  for (Mix* mix : {&small, &all}) PrintMix(*mix, *contract, **here, **session);
  return true;
}

}  // namespace attest
