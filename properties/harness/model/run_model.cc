#include "properties/harness/model/run_model.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/model/compare_logits.h"
#include "properties/harness/runner/conclude.h"
#include "properties/harness/runner/rapidcheck_loops.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

Signature SignatureOf(const ModelProperty& property, const Verdict& verdict) {
  return {std::string(property.id), verdict.cause, verdict.output, verdict.cause_class};
}

class ModelSearch {
 public:
  ModelSearch(const ModelProperty& property, ModelLab& lab, const RunOptions& options,
              const ModelObserver& observer)
      : property_(property),
        lab_(lab),
        options_(options),
        observer_(observer),
        seed_(PropertySeed(options.seed, property.id)) {
    const int64_t cases = std::max<int64_t>(options.plan.cases_per_property / property.costs, 1);
    result_.kernel = lab.session().spec().text;
    result_.property = property.id;
    result_.wanted = (cases - options.shard_index + options.shard_count - 1) / options.shard_count;
  }

  PropertyResult Run() {
    const auto start = Clock::now();
    const int64_t calls = lab_.calls();
    const std::string unsupported = property_.unsupported(lab_.contract(), lab_.other() != nullptr);
    if (unsupported.empty()) {
      while (SearchOnce()) {
      }
      Conclude(facts_, result_);
    } else {
      result_.verdict = VerdictKind::kUnsupported;
      result_.reason = unsupported;
    }
    result_.calls = lab_.calls() - calls;
    result_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return std::move(result_);
  }

 private:
  // Up to the next failure to look into; false when there is nothing left to do.
  bool SearchOnce() {
    const auto end = rapidcheck_loops::Search<ModelCase>(
        result_.wanted - result_.cases_run(), [this] { return Draw(); },
        [this](const ModelCase& c) { return Test(c); });
    facts_.gave_up = end == SearchEnd::kGaveUp;
    if (end != SearchEnd::kStopped) return false;
    if (pending_) Report(*std::exchange(pending_, std::nullopt));
    if (hangs_ >= options_.max_hangs && facts_.cut_short.empty()) {
      facts_.cut_short = fmt::format("stopped after {} hangs", hangs_);
    }
    if (options_.ends_when_full && std::ssize(result_.findings) >= options_.max_findings &&
        facts_.cut_short.empty()) {
      facts_.cut_short = fmt::format("ended after {} of its cases", result_.cases_run());
    }
    return facts_.cut_short.empty();
  }

  // Each case is a function of its number alone, as in PropertyRun, and sizes are spread evenly.
  ModelCase Draw() {
    const int64_t number = options_.shard_index + draws_++ * options_.shard_count;
    ModelCase c =
        DrawModelCase(MixIn(seed_, static_cast<uint64_t>(number)),
                      static_cast<int>(number * 37 % 101), lab_.contract(), property_.parts);
    c.origin = fmt::format("seed {}, case {}", options_.seed, number);
    return c;
  }

  Answer Test(const ModelCase& c) {
    if (IsTimeUp()) return Answer::kStop;
    Verdict verdict = property_.check(c, lab_);
    if (lab_.session().interrupted() && IsTimeUp()) return Answer::kStop;
    if (!Count(verdict)) return Answer::kSaysNothing;
    if (observer_.on_case) observer_.on_case(property_, result_.cases_run(), result_.wanted);
    if (verdict.kind != VerdictKind::kFail) return Answer::kHolds;
    hangs_ += verdict.cause == Cause::kHang ? 1 : 0;
    const bool is_new = std::ssize(result_.findings) < options_.max_findings &&
                        known_.insert(SignatureOf(property_, verdict)).second;
    if (is_new) pending_ = {c, std::move(verdict)};
    return is_new || hangs_ >= options_.max_hangs ? Answer::kStop : Answer::kHolds;
  }

  // False where the case says nothing of the claim.
  bool Count(const Verdict& verdict) {
    if (verdict.kind == VerdictKind::kInconclusive) {
      ++result_.not_applicable;
      ++facts_.not_applicable_reasons[verdict.reason];
      return false;
    }
    ++result_.cases[verdict.kind];
    if (verdict.kind == VerdictKind::kFail && result_.cases_to_first == 0) {
      result_.cases_to_first = result_.cases_run();
      result_.first_cause = verdict.cause;
    }
    if (verdict.kind == VerdictKind::kMarginal) ++result_.marginal_reasons[verdict.reason];
    result_.rows += verdict.rows;
    result_.worst_ratio = std::max(result_.worst_ratio, verdict.worst_ratio);
    return true;
  }

  bool IsOver() const {
    return (options_.stop != nullptr && options_.stop->load()) ||
           (options_.stop_at && Clock::now() >= *options_.stop_at);
  }

  bool IsTimeUp() {
    if (!IsOver()) return false;
    const bool interrupted = options_.stop != nullptr && options_.stop->load();
    facts_.cut_short =
        fmt::format("{} after {} of {} cases", interrupted ? "interrupted" : "out of time",
                    result_.cases_run(), result_.wanted);
    return true;
  }

  struct Pending {
    ModelCase c;
    Verdict verdict;
  };

  void Report(const Pending& pending) {
    ModelFinding found;
    found.finding.kernel = result_.kernel;
    found.finding.verdict = pending.verdict;
    found.finding.cases_to_first = result_.cases_run();
    Shrink(pending, found);
    Rerun(found);
    if (pending.verdict.cause == Cause::kHang && found.finding.confirmed == 0 && !IsOver()) {
      // Hurry took a slow case for one that hangs: what was met first is asked.
      found.smallest = pending.c;
      found.finding.verdict = pending.verdict;
      found.finding.confirmations = 0;
      Rerun(found);
    }
    JudgeRecurrence(found.finding);
    found.finding.signature = SignatureOf(property_, found.finding.verdict);
    known_.insert(found.finding.signature);
    const bool has_values =
        found.finding.verdict.witness || found.finding.verdict.output == "logits";
    if (property_.picture != nullptr && has_values) {
      found.picture = property_.picture(found.smallest, lab_);
    }
    if (observer_.on_finding) observer_.on_finding(found);
    result_.findings.push_back(found.finding);
  }

  // Whether a case fails with the same cause and output; `verdict` is then of that failure. A class once known
  // is kept to.
  bool FailsAs(const Signature& pattern, const ModelCase& c, Verdict& verdict) {
    Verdict now = property_.check(c, lab_);
    if (lab_.session().interrupted() || now.kind != VerdictKind::kFail) return false;
    if (!Covers(pattern, SignatureOf(property_, now))) return false;
    verdict = std::move(now);
    return true;
  }

  void Shrink(const Pending& pending, ModelFinding& found) {
    const bool hangs = pending.verdict.cause == Cause::kHang;
    lab_.session().SetHurried(hangs);
    constexpr std::chrono::seconds kHangTime{5};
    const auto end =
        Clock::now() +
        (hangs ? std::min<Clock::duration>(options_.shrink_time, kHangTime) : options_.shrink_time);
    const int64_t budget = pending.verdict.cause == Cause::kLeak ? 0 : options_.shrink_budget;
    auto [smallest, tries] = rapidcheck_loops::Shrink<ModelCase>(
        pending.c,
        [&](const ModelCase& c) {
          return FailsAs(SignatureOf(property_, found.finding.verdict), c, found.finding.verdict);
        },
        budget, [&] { return IsOver() || Clock::now() >= end; },
        [&](const ModelCase& c) { return ShrinkCandidates(c, lab_.contract()); }, SameCase);
    found.smallest = std::move(smallest);
    found.finding.shrink_steps = tries;
    lab_.session().SetHurried(false);
  }

  void Rerun(ModelFinding& found) {
    Finding& finding = found.finding;
    Signature any_class = SignatureOf(property_, finding.verdict);
    any_class.cause_class.clear();
    const int wanted = any_class.cause == Cause::kHang ? 1 : options_.confirmations;
    for (; finding.confirmations < wanted && !(finding.confirmations > 0 && IsOver());
         ++finding.confirmations) {
      Verdict again;
      if (!FailsAs(any_class, found.smallest, again)) continue;
      ++finding.confirmed;
      // Not the words of one that was hurried.
      if (any_class.cause == Cause::kHang) finding.verdict = again;
    }
  }

  // A failure that does not recur stays one, for a model that was wrong once is wrong; but not what was late once,
  // nor two calls that differ in bits, where no rerun shows it again.
  static void JudgeRecurrence(Finding& finding) {
    Verdict& verdict = finding.verdict;
    if (finding.confirmed == finding.confirmations || verdict.cause == Cause::kLeak) return;
    if (verdict.cause == Cause::kHang && finding.confirmed == 0) {
      verdict.kind = VerdictKind::kInconclusive;
      verdict.reason = "slow once: past its deadline in no rerun";
    } else {
      verdict.reason =
          fmt::format("intermittent {} of {}", finding.confirmed, finding.confirmations);
    }
    verdict.sentence += fmt::format(" ({})", verdict.reason);
  }

  const ModelProperty& property_;
  ModelLab& lab_;
  const RunOptions& options_;
  const ModelObserver& observer_;
  const uint64_t seed_;
  std::set<Signature> known_;
  std::optional<Pending> pending_;
  int64_t draws_ = 0;
  int hangs_ = 0;
  RunFacts facts_;
  PropertyResult result_;
};

}  // namespace

PropertyResult RunModelProperty(const ModelProperty& property, ModelLab& lab,
                                const RunOptions& options, const ModelObserver& observer) {
  return ModelSearch(property, lab, options, observer).Run();
}

}  // namespace attest
