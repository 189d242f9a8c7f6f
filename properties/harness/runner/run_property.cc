#include "properties/harness/runner/run_property.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/runner/conclude.h"
#include "properties/harness/runner/rapidcheck_driver.h"
#include "properties/harness/runner/slow_deaths.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

// Those of `cases` that fall to one shard: the numbers below it that Search::Draw gives it.
int64_t ShardCases(int64_t cases, const RunOptions& options) {
  return (cases - options.shard_index + options.shard_count - 1) / options.shard_count;
}

// Calls kept for failures that need calls before them: a kernel remembers the last one or some.
constexpr size_t kCallsKept = 24;

// How often a part that gives up near its end is searched on.
constexpr int kSecondTries = 8;

// A failure to be looked into.
struct Pending {
  Failure failure;
  bool waived = false;
};

}  // namespace

class PropertyRun::Search {
 public:
  Search(const Property& property, const Contract& contract, KernelSession& session,
         const RunOptions& options, RunObserver& observer)
      : property_(property),
        contract_(contract),
        session_(session),
        options_(options),
        observer_(observer),
        seed_(PropertySeed(options.seed, property.id)),
        unsupported_(property.unsupported(contract)) {
    result_.kernel = session.spec().text;
    result_.property = property.id;
    result_.wanted = ShardCases(options.plan.cases_per_property, options);
  }

  void RunTo(int64_t cases, const RunOptions& options) {
    if (!unsupported_.empty() || is_over_) return;
    const auto start = Clock::now();
    options_ = options;
    known_[0].insert(options.known.begin(), options.known.end());
    known_[1].insert(options.known_waived.begin(), options.known_waived.end());
    end_ = ShardCases(cases, options);
    facts_.cut_short.clear();  // for want of time, which there may be again
    second_tries_ = kSecondTries;
    const bool has_failed = result_.cases.count(VerdictKind::kFail) > 0;
    if (options.max_findings == 0 && has_failed) return EndFor("ended at its first failure");
    while (SearchOnce()) {
    }
    result_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  void CutShort(const std::string& why) {
    if (!facts_.cut_short.empty() || result_.cases_run() >= result_.wanted) return;
    facts_.cut_short = result_.cases_run() == 0
                           ? "not run: " + why
                           : fmt::format("ended after {} of {} cases: {}", result_.cases_run(),
                                         result_.wanted, why);
  }

  const PropertyResult& result() const { return result_; }

  PropertyResult Finish() {
    if (unsupported_.empty()) {
      Conclude(facts_, result_);
    } else {
      result_.verdict = VerdictKind::kUnsupported;
      result_.reason = unsupported_;
    }
    return std::move(result_);
  }

 private:
  // Draws cases up to the next failure to look into; false when this part is done.
  bool SearchOnce() {
    const auto end = SearchCases(
        end_ - result_.cases_run(), [this] { return Draw(); },
        [this](const Case& c) { return Test(c); });
    facts_.gave_up = end == SearchEnd::kGaveUp;
    // Of a claim that one case in eleven fits, luck decides whether the last few are found in time.
    if (facts_.gave_up && result_.cases_run() > end_ / 2 && second_tries_-- > 0) return true;
    if (end != SearchEnd::kStopped) return false;
    for (const Pending& pending : std::exchange(pending_, {})) {
      options_.max_findings == 0 ? EndWith(pending.failure) : Report(pending);
    }
    if (options_.ends_when_full && !HasRoomForFindings(false)) {
      EndFor(fmt::format("ended after {} of its cases", result_.cases_run()));
    }
    if (hangs_ >= options_.max_hangs) EndFor(fmt::format("stopped after {} hangs", hangs_));
    if (DiesSlowly()) {
      result_.dies_slowly = true;
      EndFor(slow_deaths_.Text());
    }
    return facts_.cut_short.empty();
  }

  // For good, unlike a cut for want of time. The first reason is kept.
  void EndFor(std::string why) {
    is_over_ = true;
    if (facts_.cut_short.empty()) facts_.cut_short = std::move(why);
  }

  // Cases are numbered over all shards, and each is a function of its number alone: shards share
  // none, and a search that resumes after a failure goes on where it was. RapidCheck's own stream
  // offers neither. The stride 37 is coprime with 101, so that any number of draws is spread evenly
  // over the sizes 0..100.
  Case DrawNext() {
    const int64_t number = options_.shard_index + draws_ * options_.shard_count;
    const int size = static_cast<int>(number * 37 % 101);
    ++draws_;
    return DrawCase(MixIn(seed_, static_cast<uint64_t>(number)), size, contract_,
                    options_.generator);
  }

  // The next case, which Test is asked about at once; its result is there by then, unless time is up.
  Case Draw() {
    if (results_.empty()) {
      if (IsTimeUp()) return {};
      RunAhead();
    }
    Case next = std::move(drawn_.front());
    drawn_.erase(drawn_.begin());
    return next;
  }

  // Runs the next cases, several together: as many as take no time worth speaking of, and one where the last ones
  // failed, for what a failure costs should not be paid for many.
  void RunAhead() {
    constexpr std::chrono::milliseconds kNoTime{50};
    const auto start = Clock::now();
    const SessionStats before = session_.stats();
    const auto count =
        static_cast<size_t>(std::clamp(end_ - result_.cases_run(), int64_t{1}, ahead_));
    while (drawn_.size() < count) drawn_.push_back(DrawNext());
    auto results = RunCases(property_, std::span(drawn_).first(count), contract_, session_,
                            [this](const Signature& signature) { return WantsCause(signature); });
    slow_deaths_.Count(before, session_.stats(), options_);
    const bool is_quick = session_.identity().notes_digests && Clock::now() - start < kNoTime;
    const bool failed = !results.back().failures.empty();
    ahead_ = is_quick && !failed ? std::min(2 * ahead_, kCasesTogether) : 1;
    std::ranges::move(results, std::back_inserter(results_));
  }

  Answer Test(const Case& c) {
    if (results_.empty()) return Answer::kStop;
    CaseResult result = std::move(results_.front());
    results_.pop_front();
    // What was being waited for says nothing.
    if (session_.interrupted() && IsTimeUp()) return Answer::kStop;
    result_.calls += result.calls;
    Remember(std::move(result.called_before));
    for (Failure& failure : result.failures) RememberBefore(failure);
    for (const Case& call : result.called) result_.bins.AddGradients(call);
    Remember(std::move(result.called));
    const bool says_something = Count(c, result);
    if (says_something) observer_.OnCase(property_, result_.cases_run(), result_.wanted);
    for (Failure& failure : result.failures) Consider(std::move(failure));
    if (!pending_.empty() || hangs_ >= options_.max_hangs || DiesSlowly()) return Answer::kStop;
    return says_something ? Answer::kHolds : Answer::kSaysNothing;
  }

  void Remember(std::vector<Case> called) {
    std::deque<Case>& all = *options_.called;
    std::ranges::move(called, std::back_inserter(all));
    if (all.size() > kCallsKept) {
      all.erase(all.begin(), all.end() - static_cast<int64_t>(kCallsKept));
    }
  }

  // Puts what was called before this case before what was called in it.
  void RememberBefore(Failure& failure) const {
    failure.before.insert(failure.before.begin(), options_.called->begin(), options_.called->end());
  }

  bool DiesSlowly() const {
    return result_.cases.count(VerdictKind::kFail) > 0 && slow_deaths_.AreEnough(options_);
  }

  bool IsTimeUp() {
    if (options_.stop != nullptr && options_.stop->load()) {
      facts_.cut_short = "interrupted";
    } else if (options_.stop_at && Clock::now() >= *options_.stop_at) {
      facts_.cut_short = "out of time";
    } else {
      return false;
    }
    facts_.cut_short += fmt::format(" after {} of {} cases", result_.cases_run(), result_.wanted);
    return true;
  }

  // Adds the case to the counts; false when it says nothing about the claim.
  bool Count(const Case& c, const CaseResult& result) {
    const Verdict& verdict = result.verdict;
    if (!result.applied) {
      ++result_.not_applicable;
      ++facts_.not_applicable_reasons[verdict.reason];
      return false;
    }
    ++result_.cases[verdict.kind];
    if (verdict.kind == VerdictKind::kFail && result_.cases_to_first == 0) {
      result_.cases_to_first = result_.cases_run();
      result_.first_cause = verdict.cause;
    }
    if (verdict.kind == VerdictKind::kUnsupported) {
      ++result_.unsupported_reasons[verdict.reason];
      return false;
    }
    result_.bins.Add(c);
    result_.via_mask += verdict.via_mask ? 1 : 0;
    result_.rows += verdict.rows;
    result_.uninformative_rows += verdict.uninformative_rows;
    result_.unconstrained_rows += verdict.unconstrained_rows;
    result_.worst_ratio = std::max(result_.worst_ratio, verdict.worst_ratio);
    KeepLargest(verdict.figures);
    KeepReason(verdict);
    return true;
  }

  void KeepLargest(const ErrorFigures& seen) {
    ErrorFigures& kept = result_.figures;
    kept.probable_ratio = std::max(kept.probable_ratio, seen.probable_ratio);
    kept.rms = std::max(kept.rms, seen.rms);
    if (std::abs(seen.bias) > std::abs(kept.bias)) kept.bias = seen.bias;
    kept.plain_ratio = std::max(kept.plain_ratio, seen.plain_ratio);
  }

  void KeepReason(const Verdict& verdict) {
    if (verdict.kind == VerdictKind::kMarginal) ++result_.marginal_reasons[verdict.reason];
    if (verdict.kind == VerdictKind::kInconclusive && facts_.first_inconclusive.empty()) {
      facts_.first_inconclusive = verdict.reason;
    }
  }

  // A failure without a class is one of any kind that shares all else with it; of those with one
  // there is a limit.
  bool IsKnown(const Signature& signature, bool waived) const {
    return CountKnown(signature, waived) > 0 || !HasRoomForClasses(signature, waived);
  }

  int64_t CountKnown(const Signature& pattern, bool waived) const {
    return std::ranges::count_if(known_.at(waived ? 1 : 0),
                                 [&](const Signature& known) { return Covers(pattern, known); });
  }

  bool HasRoomForClasses(Signature signature, bool waived) const {
    signature.cause_class.clear();
    return CountKnown(signature, waived) < options_.max_classes;
  }

  bool HasRoom(const Signature& signature, bool waived) const {
    return HasRoomForFindings(waived) && HasRoomForClasses(signature, waived);
  }

  // Only a failure that could yet be reported needs its cause, and after so many of one sort a class
  // that has not shown is not to be expected.
  bool WantsCause(const Signature& signature) {
    constexpr int kEnough = 32;
    const bool wants =
        HasRoom(signature, false) || (options_.is_waived != nullptr && HasRoom(signature, true));
    return wants && ++causes_sought_[signature] <= kEnough;
  }

  bool HasRoomForFindings(bool waived) const {
    return findings_.at(waived ? 1 : 0) < options_.max_findings;
  }

  // A signature met for the first time is kept to be looked into.
  void Consider(Failure failure) {
    hangs_ += failure.verdict.cause == Cause::kHang ? 1 : 0;
    const bool waived = options_.is_waived != nullptr && options_.is_waived(failure);
    if (options_.max_findings == 0 && !waived && failure.signature.property == property_.id) {
      pending_.push_back({std::move(failure), false});
      return;
    }
    if (!HasRoomForFindings(waived) || IsKnown(failure.signature, waived)) return;
    ++findings_.at(waived ? 1 : 0);
    known_.at(waived ? 1 : 0).insert(failure.signature);
    pending_.push_back({std::move(failure), waived});
  }

  // A derived case that differs from the reference is reported under equivalence's own name.
  const Property& NamedBy(const Failure& failure) const {
    const Property* named = FindProperty(failure.signature.property);
    return named == nullptr ? property_ : *named;
  }

  void Report(const Pending& pending) {
    const Failure& failure = pending.failure;
    Finding finding =
        MakeFinding(NamedBy(failure), failure, contract_, session_, options_, observer_);
    options_.called->clear();  // the session has seen other calls since
    if (finding.verdict.kind == VerdictKind::kInconclusive) return NoteFlaky(finding);
    // A smaller case may have shown its class, and it may be one that is reported.
    const bool is_new = known_.at(pending.waived ? 1 : 0).insert(finding.signature).second;
    if (!is_new && finding.signature != failure.signature) return;
    finding.cases_to_first = result_.cases_run();
    observer_.OnFinding(finding);
    result_.findings.push_back(std::move(finding));
  }

  // A failure that need be none: said once, and no finding.
  void NoteFlaky(const Finding& finding) {
    if (finding.signature.property != property_.id) return;
    if (facts_.flaky_failures++ == 0) facts_.flaky = finding.verdict.reason;
  }

  // Where no finding is wanted. A failure that does not recur is no failure, as in a finding.
  void EndWith(const Failure& failure) {
    RunOptions unshrunk = options_;
    unshrunk.shrink_budget = 0;
    const Verdict verdict =
        MakeFinding(property_, failure, contract_, session_, unshrunk, observer_).verdict;
    EndFor(verdict.kind == VerdictKind::kFail ? "ended at its first failure" : verdict.reason);
    if (verdict.kind == VerdictKind::kFail) return;
    result_.cases.erase(VerdictKind::kFail);  // that one, for a failure ends the property
    ++result_.cases[verdict.kind];
    result_.cases_to_first = 0;
  }

  const Property& property_;
  const Contract& contract_;
  KernelSession& session_;
  RunOptions options_;  // of the part that runs
  RunObserver& observer_;
  const uint64_t seed_;
  const std::string unsupported_;             // why nothing is run; empty = it is
  std::array<std::set<Signature>, 2> known_;  // those that count, and those that are waived
  std::array<int, 2> findings_{};             // likewise: how many, pending ones too
  std::map<Signature, int> causes_sought_;    // by signatures without a class
  std::vector<Pending> pending_;
  int64_t draws_ = 0;
  int64_t ahead_ = 1;               // cases to be run together next
  std::vector<Case> drawn_;         // the next cases
  std::deque<CaseResult> results_;  // of the first of them
  int64_t end_ = 0;                 // the cases after which this part ends
  bool is_over_ = false;            // there is no further part
  int second_tries_ = 0;            // left to this part
  int hangs_ = 0;
  SlowDeaths slow_deaths_;
  RunFacts facts_;
  PropertyResult result_;
};

PropertyRun::PropertyRun(const Property& property, const Contract& contract, KernelSession& session,
                         const RunOptions& options, RunObserver& observer)
    : search_(std::make_unique<Search>(property, contract, session, options, observer)) {}
PropertyRun::PropertyRun(PropertyRun&&) noexcept = default;
PropertyRun::~PropertyRun() = default;

void PropertyRun::RunTo(int64_t cases, const RunOptions& options) {
  search_->RunTo(cases, options);
}
void PropertyRun::CutShort(const std::string& why) {
  search_->CutShort(why);
}
const PropertyResult& PropertyRun::result() const {
  return search_->result();
}
PropertyResult PropertyRun::Finish() {
  return search_->Finish();
}

PropertyResult RunProperty(const Property& property, const Contract& contract,
                           KernelSession& session, const RunOptions& options,
                           RunObserver& observer) {
  PropertyRun run(property, contract, session, options, observer);
  run.RunTo(options.plan.cases_per_property, options);
  return run.Finish();
}

}  // namespace attest
