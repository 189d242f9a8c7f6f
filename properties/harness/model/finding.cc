// From a failing case of a model to a finding: shrunk, run again, and judged by what the reruns say.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/model/run_model.h"
#include "properties/harness/runner/rapidcheck_loops.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

// Each candidate that hangs costs a deadline and a worker.
constexpr std::chrono::seconds kHangShrinkTime{5};

class FindingMaker {
 public:
  FindingMaker(const ModelProperty& property, const ModelCase& failing, const Verdict& verdict,
               ModelLab& lab, const RunOptions& options, const ModelObserver& observer)
      : property_(property),
        failing_(failing),
        verdict_(verdict),
        lab_(lab),
        options_(options),
        observer_(observer),
        waived_(IsWaived(failing, verdict)) {}

  ModelFinding Make() {
    found_.finding.kernel = lab_.session().spec().text;
    found_.finding.verdict = verdict_;
    Shrink();
    Rerun();
    const bool hangs = verdict_.cause == Cause::kHang;
    if (hangs && found_.finding.confirmed == 0 && !IsOver()) {
      // Hurry took a slow case for one that hangs: what was met first is asked.
      found_.smallest = failing_;
      found_.finding.verdict = verdict_;
      found_.finding.confirmations = 0;
      Rerun();
    }
    JudgeRecurrence();
    found_.finding.signature = SignatureOf(found_.finding.verdict);
    const bool has_values =
        found_.finding.verdict.witness || found_.finding.verdict.output == "logits";
    if (property_.picture != nullptr && has_values && !lab_.session().interrupted()) {
      found_.picture = property_.picture(found_.smallest, lab_);
    }
    return std::move(found_);
  }

 private:
  Signature SignatureOf(const Verdict& verdict) const {
    return {std::string(property_.id), verdict.cause, verdict.output, verdict.cause_class};
  }

  bool IsWaived(const ModelCase& c, const Verdict& verdict) const {
    return observer_.is_waived && observer_.is_waived(SignatureOf(verdict), c, verdict);
  }

  bool IsOver() const {
    return lab_.session().interrupted() || (options_.stop != nullptr && options_.stop->load()) ||
           (options_.stop_at && Clock::now() >= *options_.stop_at);
  }

  // Whether a case fails with the same cause and output; `verdict` is then of that failure. A class once known
  // is kept to.
  bool FailsAs(const Signature& pattern, const ModelCase& c, Verdict& verdict) {
    Verdict now = property_.check(c, lab_);
    if (lab_.session().interrupted() || now.kind != VerdictKind::kFail) return false;
    if (!Covers(pattern, SignatureOf(now))) return false;
    verdict = std::move(now);
    return true;
  }

  // Likewise, and nothing that is waived is shrunk to what is not, or the reverse.
  bool ShrinksTo(const ModelCase& c) {
    Verdict now;
    if (!FailsAs(SignatureOf(found_.finding.verdict), c, now) || IsWaived(c, now) != waived_) {
      return false;
    }
    found_.finding.verdict = std::move(now);
    return true;
  }

  void Shrink() {
    const bool hangs = verdict_.cause == Cause::kHang;
    lab_.session().SetHurried(hangs);
    const auto end =
        Clock::now() + (hangs ? std::min<Clock::duration>(options_.shrink_time, kHangShrinkTime)
                              : options_.shrink_time);
    const int64_t budget = verdict_.cause == Cause::kLeak ? 0 : options_.shrink_budget;
    auto [smallest, tries] = rapidcheck_loops::Shrink<ModelCase>(
        failing_, [&](const ModelCase& c) { return ShrinksTo(c); }, budget,
        [&] { return IsOver() || Clock::now() >= end; },
        [&](const ModelCase& c) { return ShrinkCandidates(c, lab_.contract()); }, SameCase);
    found_.smallest = std::move(smallest);
    found_.finding.shrink_steps = tries;
    lab_.session().SetHurried(false);
  }

  int Wanted() const {
    return verdict_.cause == Cause::kHang ? std::min(1, options_.confirmations)
                                          : options_.confirmations;
  }

  void Rerun() {
    Finding& finding = found_.finding;
    if (verdict_.cause == Cause::kLeak) return;
    Signature any_class = SignatureOf(finding.verdict);
    any_class.cause_class.clear();
    while (finding.confirmations < Wanted() && !(finding.confirmations > 0 && IsOver())) {
      Verdict again;
      const bool recurs = FailsAs(any_class, found_.smallest, again);
      if (lab_.session().interrupted()) return;  // the rerun says nothing
      ++finding.confirmations;
      if (!recurs) continue;
      ++finding.confirmed;
      // Not the words of one that was hurried.
      if (any_class.cause == Cause::kHang) finding.verdict = again;
    }
  }

  // A failure that does not recur stays one, for a model that was wrong once is wrong; but not what was late once.
  void JudgeRecurrence() {
    Finding& finding = found_.finding;
    Verdict& verdict = finding.verdict;
    if (verdict.cause == Cause::kLeak) return;
    if (finding.confirmations == 0 && Wanted() > 0) {
      verdict.reason = "reruns not finished";
    } else if (finding.confirmed == finding.confirmations) {
      return;
    } else if (verdict.cause == Cause::kHang && finding.confirmed == 0) {
      verdict.kind = VerdictKind::kInconclusive;
      verdict.reason = "slow once: past its deadline in no rerun";
    } else {
      verdict.reason =
          fmt::format("intermittent {} of {}", finding.confirmed, finding.confirmations);
    }
    verdict.sentence += fmt::format(" ({})", verdict.reason);
  }

  const ModelProperty& property_;
  const ModelCase& failing_;
  const Verdict& verdict_;  // as it was met
  ModelLab& lab_;
  const RunOptions& options_;
  const ModelObserver& observer_;
  const bool waived_;
  ModelFinding found_;
};

}  // namespace

ModelFinding MakeModelFinding(const ModelProperty& property, const ModelCase& failing,
                              const Verdict& verdict, ModelLab& lab, const RunOptions& options,
                              const ModelObserver& observer) {
  return FindingMaker(property, failing, verdict, lab, options, observer).Make();
}

}  // namespace attest
