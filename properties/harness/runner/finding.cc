#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/runner/rapidcheck_driver.h"
#include "properties/harness/runner/run_case.h"
#include "properties/harness/runner/run_property.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

// Hangs are shrunk hurriedly, and no longer than this: each candidate that hangs costs a deadline and a worker.
constexpr std::chrono::seconds kHangShrinkTime{5};

// One failure, followed from case to case. The same failure is one with the same property, cause,
// output and class; as long as no class is known any will do, for some show on some sizes only, and
// the first to show is then kept to: a smaller case of another fault explains nothing. Nor does one
// that is waived where this one is not, or the reverse.
class FailureProbe {
 public:
  FailureProbe(const Property& property, const Failure& failure, const Contract& contract,
               KernelSession& session, const RunOptions& options)
      : property_(property),
        contract_(contract),
        session_(session),
        options_(options),
        waived_(IsWaived(failure)),
        signature_(failure.signature),
        verdict_(failure.verdict) {}

  // Whether `c` fails in the same way; signature() and verdict() are then of that failure.
  bool StillFails(const Case& c) {
    auto failure = Run(c, signature_, /*needs_class=*/true);
    if (!failure) return false;
    signature_ = std::move(failure->signature);
    verdict_ = std::move(failure->verdict);
    return true;
  }

  // Likewise for a rerun, whose values, and so whose class, may be others.
  bool Recurs(const Case& c) {
    Signature any_class = signature_;
    any_class.cause_class.clear();
    auto failure = Run(c, any_class, /*needs_class=*/false);
    // How long it was waited for says more without hurry.
    if (failure && signature_.cause == Cause::kHang) verdict_ = std::move(failure->verdict);
    return failure.has_value();
  }

  // Back to the failure as it was met.
  void Follow(const Failure& failure) {
    signature_ = failure.signature;
    verdict_ = failure.verdict;
  }

  bool interrupted() const { return session_.interrupted(); }
  const Signature& signature() const { return signature_; }
  const Verdict& verdict() const { return verdict_; }

 private:
  std::optional<Failure> Run(const Case& c, const Signature& pattern, bool needs_class) {
    CaseResult result = RunCase(property_, c, contract_, session_, [&](const Signature& signature) {
      Signature any_class = pattern;
      any_class.cause_class.clear();
      return needs_class && Covers(any_class, signature);
    });
    if (session_.interrupted()) return std::nullopt;
    for (Failure& failure : result.failures) {
      if (!Covers(pattern, failure.signature)) continue;
      if (needs_class && IsWaived(failure) != waived_) continue;
      return std::move(failure);
    }
    return std::nullopt;
  }

  bool IsWaived(const Failure& failure) const {
    return options_.is_waived != nullptr && options_.is_waived(failure);
  }

  const Property& property_;
  const Contract& contract_;
  KernelSession& session_;
  const RunOptions& options_;
  const bool waived_;
  Signature signature_;
  Verdict verdict_;
};

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
  }
  verdict.sentence += fmt::format(" ({})", verdict.reason);
}

}  // namespace

Finding MakeFinding(const Property& property, const Failure& failure, const Contract& contract,
                    KernelSession& session, const RunOptions& options, RunObserver& observer) {
  FailureProbe probe(property, failure, contract, session, options);
  session.SetHurried(failure.signature.cause == Cause::kHang);
  ShrunkCase shrunk = ShrinkFailure(property, failure.c, probe, options, observer);
  session.SetHurried(false);
  Finding finding;
  finding.kernel = session.spec().text;
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
  finding.derived = DerivedAtFault(property, finding.smallest, contract, finding.verdict);
  JudgeRecurrence(property, finding);
  return finding;
}

}  // namespace attest
