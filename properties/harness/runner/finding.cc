#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/judge/gradient_causes.h"
#include "properties/harness/runner/calls_before.h"
#include "properties/harness/runner/failure_probe.h"
#include "properties/harness/runner/numerics_of_both.h"
#include "properties/harness/runner/rapidcheck_driver.h"
#include "properties/harness/runner/run_case.h"
#include "properties/harness/runner/run_property.h"
#include "properties/harness/runner/storage_cause.h"
#include "properties/harness/runner/strides_cause.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

// Hangs are shrunk hurriedly, and no longer than this: each candidate that hangs costs a deadline and a worker.
constexpr std::chrono::seconds kHangShrinkTime{5};

// Tries on fresh kernels while the calls before a case are sought and made smaller.
constexpr int64_t kSequenceTries = 200;

bool IsOver(const RunOptions& options) {
  return (options.stop != nullptr && options.stop->load()) ||
         (options.stop_at && Clock::now() >= *options.stop_at);
}

ShrunkCase ShrinkFailure(const Property& property, const Case& failing, FailureProbe& probe,
                         const RunOptions& options, RunObserver& observer) {
  const bool hangs = probe.signature().cause == Cause::kHang;
  const auto end =
      Clock::now() + (hangs ? std::min<Clock::duration>(options.shrink_time, kHangShrinkTime)
                            : options.shrink_time);
  const int64_t budget = probe.signature().cause == Cause::kLeak ? 0 : options.shrink_budget;
  int64_t tries = 0;
  return ShrinkCase(
      failing,
      [&](const Case& c) {
        observer.OnShrink(property, ++tries);
        return probe.StillFails(c);
      },
      budget, [&] { return IsOver(options) || Clock::now() >= end; });
}

// Reruns the smallest case. Three runs of which one fails say little, so where not all do they go
// on, for as long as shrinking may take. Where the run is over one is all.
void Confirm(FailureProbe& probe, const RunOptions& options, Finding& finding) {
  const auto end = Clock::now() + options.shrink_time;
  // Each rerun of a hang costs a whole deadline.
  const int wanted = probe.signature().cause == Cause::kHang ? std::min(1, options.confirmations)
                                                             : options.confirmations;
  const auto is_enough = [&] {
    if (finding.confirmations >= 1 && IsOver(options)) return true;
    return finding.confirmations >= wanted &&
           (finding.confirmed == finding.confirmations ||
            finding.confirmations >= options.recounts || Clock::now() >= end);
  };
  // A leak was found by repeating a call, and shows in no single case.
  while (probe.signature().cause != Cause::kLeak && !is_enough()) {
    const bool recurs = probe.Recurs(finding.smallest);
    if (probe.interrupted()) return;  // the rerun says nothing
    finding.confirmed += recurs ? 1 : 0;
    ++finding.confirmations;
  }
}

// Whether the failure is two calls that ought to agree in bits and do not: where one kernel call in
// five differs from the others, that says nothing about what the calls differ in.
bool ComparesCalls(const Property& property, const Verdict& verdict) {
  const bool is_bitwise = !verdict.witness || verdict.witness->bound == 0;
  return property.exactness == Exactness::kBitwise && verdict.cause == Cause::kValue &&
         is_bitwise && property.rung != Rung::kDeterministic;
}

// What rows look like is no cause where the same case is right each time it is run again.
void ForgetCause(Finding& finding) {
  Verdict& verdict = finding.verdict;
  const std::string tail = "; " + verdict.likely_cause;
  const size_t at = verdict.likely_cause.empty() ? std::string::npos : verdict.sentence.rfind(tail);
  if (at != std::string::npos) verdict.sentence.erase(at, tail.size());
  verdict.likely_cause.clear();
  verdict.cause_class.clear();
  finding.signature.cause_class.clear();
  verdict.other_causes.clear();
}

// The verdict's words for a failure that did not recur each time; see MakeFinding.
void JudgeRecurrence(const Property& property, Finding& finding) {
  if (finding.confirmed == finding.confirmations) return;
  Verdict& verdict = finding.verdict;
  if (verdict.cause == Cause::kHang && finding.confirmed == 0) {
    // The deadline is of the clock: on a busy machine a call may pass it that does not hang.
    verdict.kind = VerdictKind::kInconclusive;
    verdict.reason =
        fmt::format("slow once: past its deadline in none of {} more runs", finding.confirmations);
  } else if (ComparesCalls(property, verdict)) {
    verdict.kind = VerdictKind::kInconclusive;
    verdict.reason =
        fmt::format("flaky: failed in {} of {} runs", finding.confirmed, finding.confirmations);
  } else {
    verdict.reason = fmt::format("intermittent {} of {}", finding.confirmed, finding.confirmations);
    if (finding.confirmed == 0) ForgetCause(finding);
  }
  verdict.sentence += fmt::format(" ({})", verdict.reason);
}

// A cause that running the case again has shown; there is no other then, whatever the rows look like.
void Blame(std::string_view cause_class, std::string why, Finding& finding) {
  ForgetCause(finding);
  Verdict& verdict = finding.verdict;
  verdict.likely_cause = std::move(why);
  verdict.cause_class = finding.signature.cause_class = cause_class;
  verdict.sentence += "; " + verdict.likely_cause;
}

// `calls` says which.
void BlameCalls(std::string_view calls, Finding& finding) {
  Blame(kCallBefore,
        fmt::format("it depends on {}, of which the kernel keeps something: alone on a fresh "
                    "kernel it is right",
                    calls),
        finding);
}

bool SameWitness(const std::optional<Witness>& a, const std::optional<Witness>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->index == b->index && SameBits(a->observed, b->observed) &&
         SameBits(a->expected, b->expected);
}

// Whether two reruns differ by about as much as either is wrong. Sums of another order differ too, in last bits that
// are the cause of nothing.
bool DifferByTheError(const std::optional<Witness>& a, const std::optional<Witness>& b) {
  if (!a || !b) return a.has_value() != b.has_value();
  const double error_a = std::abs(a->observed - a->expected);
  const double error_b = std::abs(b->observed - b->expected);
  const double apart = a->index == b->index && SameBits(a->expected, b->expected)
                           ? std::abs(a->observed - b->observed)
                           : std::abs(error_a - error_b);
  if (std::isnan(apart)) return !SameWitness(a, b);
  return apart > 0.5 * std::min(error_a, error_b);
}

// Whether what fails is that the kernel does not repeat itself: reruns differ, and so do runs of the case alone on a
// fresh kernel, where no call before it can be the reason.
bool DiffersFromRunToRun(FailureProbe& probe, const Finding& finding) {
  constexpr int kFreshRuns = 3;
  const auto& reruns = probe.reruns();
  const bool is_varied = finding.confirmed > 0 && std::ranges::any_of(reruns, [&](const auto& one) {
                           return DifferByTheError(reruns.front(), one) ||
                                  DifferByTheError(finding.verdict.witness, one);
                         });
  if (!is_varied) return false;
  std::vector<std::optional<Witness>> fresh;
  for (int i = 0; i < kFreshRuns && probe.CanRefresh(); ++i) {
    const bool recurs = probe.RecursBehind({}, finding.smallest);
    fresh.push_back(recurs ? probe.verdict().witness : std::nullopt);
    if (!probe.interrupted() && !SameWitness(fresh.front(), fresh.back())) return true;
  }
  return false;
}

// The calls before it that the failure needs, put together again from those that were made when it was met; as it fails
// behind them. nullopt where they do not make it fail each time.
std::optional<Finding> BehindCallsBefore(const Failure& met, FailureProbe& probe,
                                         const RunOptions& options, Finding finding) {
  const auto end = Clock::now() + options.shrink_time / 2;
  probe.Follow(met);
  const FailsFresh fails = [&](const CallSequence& sequence) {
    if (IsOver(options) || Clock::now() >= end || !probe.CanRefresh()) return false;
    return probe.RecursBehind(sequence.before, sequence.c);
  };
  const auto sequence = SmallestSequence({met.before, met.c}, fails, kSequenceTries);
  if (!sequence) return std::nullopt;
  finding.smallest = sequence->c;
  finding.before = sequence->before;
  finding.confirmations = std::max(1, options.confirmations);
  finding.confirmed = 0;
  for (int i = 0; i < finding.confirmations; ++i) {
    const bool recurs =
        probe.RecursBehind(finding.before, finding.smallest, finding.before.empty());
    finding.confirmed += recurs ? 1 : 0;
  }
  if (finding.confirmed < finding.confirmations) return std::nullopt;
  finding.signature = probe.signature();
  finding.verdict = probe.verdict();
  if (!finding.before.empty()) {
    BlameCalls(finding.before.size() == 1 ? "the call before it" : "the calls before it", finding);
  }
  return finding;
}

// Whether the failure depends on calls before it, and on which. A case that fails alone on a fresh kernel needs none but
// its own.
void FollowCallsBefore(const Failure& met, FailureProbe& probe, const RunOptions& options,
                       Finding& finding) {
  const bool is_lasting = finding.confirmed > 0 && finding.confirmed == finding.confirmations;
  bool fails_alone = is_lasting && probe.RecursBehind({}, finding.smallest);
  if (!fails_alone) {
    auto behind = BehindCallsBefore(met, probe, options, finding);
    fails_alone = behind && behind->before.empty();
    if (behind) {
      finding = *std::move(behind);
    } else if (is_lasting && !probe.interrupted()) {
      BlameCalls("calls before it that are not known", finding);
    }
  }
  if (fails_alone && probe.NeedsItsOwnCallsBefore(finding.smallest)) {
    BlameCalls("the call before it", finding);
  }
}

// Whether calls before it may be the reason that the failure recurs, or does not. A fault that its kernel does not
// survive is met by a fresh one each time: it may need them where it does not recur. Hangs cost a deadline a try.
bool MayNeedCallsBefore(const Finding& finding, const FailureProbe& probe) {
  if (!probe.CanRefresh()) return false;
  switch (finding.signature.cause) {
    case Cause::kValue:
    case Cause::kNan:
    case Cause::kInf:
    case Cause::kUnwritten:
    case Cause::kStrayWrite:
    case Cause::kFloatEnvironment:
      return true;
    case Cause::kHang:
    case Cause::kLeak:
      return false;
    default:
      return finding.confirmed < finding.confirmations;
  }
}

// What running the case again, and on fresh kernels, says of its cause.
void FollowReruns(const Failure& met, FailureProbe& probe, const RunOptions& options,
                  Finding& finding) {
  if (DiffersFromRunToRun(probe, finding)) {
    Blame(kRerunDiffers, "the same call gives another result when it is made again", finding);
  } else {
    FollowCallsBefore(met, probe, options, finding);
  }
}

// The case with a few lanes at least, and more of those that it has more of.
Case Widened(Case c) {
  constexpr int64_t kFewLanes = 3;
  Problem& p = c.problem;
  const int64_t head_dim = p.head_dim;
  p.head_dim = std::max(p.head_dim, kFewLanes + (head_dim > p.value_dim ? 1 : 0));
  p.value_dim = std::max(p.value_dim, kFewLanes + (head_dim < p.value_dim ? 1 : 0));
  return c;
}

// Whether the smallest case fits the class, too, which is then its cause.
bool TakeOtherCause(std::string_view cause_class, Finding& finding) {
  std::vector<OtherCause>& others = finding.verdict.other_causes;
  const auto found = std::ranges::find(others, cause_class, &OtherCause::cause_class);
  if (found == others.end()) return false;
  const OtherCause taken =
      std::exchange(*found, {finding.verdict.cause_class, finding.verdict.likely_cause});
  const std::vector<OtherCause> rest = others;
  Blame(taken.cause_class, taken.phrase, finding);
  finding.verdict.other_causes = rest;
  return true;
}

// A rule of the backward pass that gives the smallest case must give the case as it was met, and both with more lanes:
// with a single one several rules come to the same. Where those say another that gives the smallest, too, it is that.
void DoubtGradientCause(const Failure& met, FailureProbe& probe, Finding& finding) {
  const Verdict& verdict = finding.verdict;
  if (!IsGradientOutput(verdict.output) || verdict.cause_class.empty() || finding.confirmed == 0)
    return;
  for (const Case& c : {met.c, Widened(met.c), Widened(finding.smallest)}) {
    if (Validate(c) || !CanExplainGradient(c.problem)) continue;
    const auto other = probe.OtherGradientClass(c, verdict.cause_class);
    if (other && !TakeOtherCause(*other, finding)) return ForgetCause(finding);
  }
}

// Whether a kernel that is said to lose what is below the least normal number is wrong, too, where there is no such
// number: any kernel that gives zeros seems to lose them.
bool FailsAmongNormalNumbers(const std::string& phrase, Case c, const Contract& contract,
                             KernelSession& session) {
  if (phrase.find("flush_to_zero") == std::string::npos) return false;
  c.recipe.values = ValueFamily::kNormal;
  c.recipe.scores = ScoreFamily::kNormal;
  return RunFails(*FindProperty("equivalence.matches_reference"), c, contract, session);
}

// Arithmetic that covers the smallest case and not the case as it was met is no cause: who declared it would declare a
// fault away. In 16 bits sums overflow, too, which no declaration covers: there it is a lead.
void DoubtNumerics(const Property& property, const Failure& met, const Contract& contract,
                   KernelSession& session, Finding& finding) {
  Verdict& verdict = finding.verdict;
  if (verdict.cause_class != kNumerics || finding.confirmed == 0) return;
  std::string phrase = NumericsOfBoth(property, met, finding, contract, session);
  if (phrase == verdict.likely_cause) {
    if (FailsAmongNormalNumbers(phrase, met.c, contract, session)) ForgetCause(finding);
    return;
  }
  if (!phrase.empty()) return Blame(kNumerics, std::move(phrase), finding);
  const DType dtype = finding.smallest.problem.dtype;
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    return Blame(kNumerics,
                 "perhaps arithmetic coarser than is declared, but none that could be declared "
                 "covers both this case and the case as it was met",
                 finding);
  }
  // Rules that give so small an error, too, do so by chance.
  ForgetCause(finding);
}

// What the forward pass gave is looked at behind the backward pass. Where it is right without one, that one wrote there.
void BlameBackward(FailureProbe& probe, Finding& finding) {
  const bool is_of_forward = finding.verdict.output == "out" || finding.verdict.output == "lse";
  if (!finding.smallest.problem.want_gradients || !is_of_forward || finding.confirmed == 0) return;
  Case forward = finding.smallest;
  forward.problem.want_gradients = false;
  if (Validate(forward) || !probe.Holds(forward)) return;
  Blame(kBackwardOverForward,
        "the backward pass writes over what the forward pass gave: without it that is right",
        finding);
}

// Whether running the case again in another form may tell the cause.
bool IsLastingAndOfValues(const Finding& finding) {
  const bool is_lasting = finding.confirmed > 0 && finding.confirmed == finding.confirmations;
  const Cause cause = finding.verdict.cause;
  const bool is_of_values = cause == Cause::kValue || cause == Cause::kNan || cause == Cause::kInf;
  const std::string_view known = finding.signature.cause_class;
  return is_lasting && is_of_values && known != kCallBefore && known != kRerunDiffers;
}

// What fails with tensors that are not contiguous, and holds with such as are.
void BlameStrides(const Property& property, const Contract& contract, KernelSession& session,
                  Finding& finding) {
  if (!IsLastingAndOfValues(finding)) return;
  const auto found = FindStridesCause(property, finding.smallest, contract, session);
  if (found) Blame(found->cause_class, found->why, finding);
}

// What fails with keys in a cache, and holds with plain ones. A rule that says what is wrong there leads, but
// for first calls and packed ones, of which no rule knows.
void BlameStorage(const Property& property, const Contract& contract, KernelSession& session,
                  Finding& finding) {
  const std::string_view known = finding.signature.cause_class;
  const Case& stored = finding.derived ? *finding.derived : finding.smallest;
  const bool leads = known.empty() || IsSymptom(known) || stored.storage.packed ||
                     stored.storage.first_call != FirstCall::kNo;
  if (!IsLastingAndOfValues(finding) || !leads) return;
  auto found = FindStorageCause(property, finding, contract, session);
  if (found) Blame(found->cause_class, std::move(found->why), finding);
}

Finding Started(const Failure& failure, const KernelSession& session) {
  Finding finding;
  finding.kernel = session.spec().text;
  finding.smallest = failure.c;
  finding.signature = failure.signature;
  finding.verdict = failure.verdict;
  return finding;
}

// Two calls that differ now and then: nothing that shrinking could follow. nullopt where they differ each time.
std::optional<Finding> Flaky(const Property& property, const Failure& failure, FailureProbe& probe,
                             const RunOptions& options, const KernelSession& session) {
  if (!ComparesCalls(property, failure.verdict)) return std::nullopt;
  Finding finding = Started(failure, session);
  Confirm(probe, options, finding);
  JudgeRecurrence(property, finding);
  if (finding.verdict.kind == VerdictKind::kFail) return std::nullopt;
  return finding;
}

}  // namespace

Finding MakeFinding(const Property& property, const Failure& failure, const Contract& contract,
                    KernelSession& session, const RunOptions& options, RunObserver& observer) {
  FailureProbe probe(property, failure, contract, session, options);
  if (auto flaky = Flaky(property, failure, probe, options, session)) return *std::move(flaky);
  session.SetHurried(failure.signature.cause == Cause::kHang);
  ShrunkCase shrunk = ShrinkFailure(property, failure.c, probe, options, observer);
  session.SetHurried(false);
  Finding finding = Started(failure, session);
  finding.smallest = std::move(shrunk.smallest);
  finding.shrink_steps = shrunk.tries;
  Confirm(probe, options, finding);
  if (failure.signature.cause == Cause::kHang && finding.confirmed == 0 &&
      finding.shrink_steps > 0 && !probe.interrupted()) {
    // Hurry took a slow case for one that hangs: what was met first is asked.
    finding.smallest = failure.c;
    finding.confirmations = 0;
    probe.Follow(failure);
    Confirm(probe, options, finding);
  }
  finding.signature = probe.signature();
  finding.verdict = probe.verdict();
  if (finding.confirmed > 0 && !finding.verdict.likely_cause.empty()) {
    finding.verdict.other_causes = probe.OtherCauses(finding.smallest);
  }
  DoubtGradientCause(failure, probe, finding);
  DoubtNumerics(property, failure, contract, session, finding);
  BlameBackward(probe, finding);
  if (MayNeedCallsBefore(finding, probe)) FollowReruns(failure, probe, options, finding);
  BlameStrides(property, contract, session, finding);
  finding.derived = DerivedAtFault(property, finding.smallest, contract, finding.verdict);
  BlameStorage(property, contract, session, finding);
  JudgeRecurrence(property, finding);
  return finding;
}

}  // namespace attest
