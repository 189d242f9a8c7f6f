#include "properties/harness/model/run_model.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/model/compare_logits.h"
#include "properties/harness/runner/conclude.h"
#include "properties/harness/runner/rapidcheck_loops.h"
#include "properties/harness/runner/slow_deaths.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

// Those of a plan's cases that a property of this cost runs in this shard.
int64_t ShareOf(int64_t cases, const ModelProperty& property, const RunOptions& options) {
  const int64_t all = std::max<int64_t>(cases / property.costs, 1);
  return (all - options.shard_index + options.shard_count - 1) / options.shard_count;
}

// A failure to be looked into.
struct Pending {
  ModelCase c;
  Verdict verdict;
};

}  // namespace

class ModelPropertyRun::Search {
 public:
  Search(const ModelProperty& property, ModelLab& lab, const RunOptions& options,
         const ModelObserver& observer)
      : property_(property),
        lab_(lab),
        options_(options),
        observer_(observer),
        seed_(PropertySeed(options.seed, property.id)),
        unsupported_(property.unsupported(lab.contract(), lab.other() != nullptr)) {
    result_.kernel = lab.session().spec().text;
    result_.property = property.id;
    result_.wanted = ShareOf(options.plan.cases_per_property, property, options);
  }

  void RunTo(int64_t cases, const RunOptions& options) {
    if (!unsupported_.empty() || is_over_) return;
    const auto start = Clock::now();
    const int64_t calls = lab_.calls();
    options_ = options;
    end_ = ShareOf(cases, property_, options);
    facts_.cut_short.clear();  // for want of time, which there may be again
    while (SearchOnce()) {
    }
    result_.calls += lab_.calls() - calls;
    result_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  void CutShort(const std::string& why) {
    if (!unsupported_.empty()) return;
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
  // Up to the next failure to look into; false when this part is done.
  bool SearchOnce() {
    const auto end = rapidcheck_loops::Search<ModelCase>(
        end_ - result_.cases_run(), [this] { return Draw(); },
        [this](const ModelCase& c) { return Test(c); });
    facts_.gave_up = end == SearchEnd::kGaveUp;
    if (end != SearchEnd::kStopped) return false;
    if (pending_) Report(*std::exchange(pending_, std::nullopt));
    if (options_.ends_when_full && findings_[0] >= options_.max_findings) {
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
    const SessionStats before = lab_.session().stats();
    // After so many failures a class that has not shown is not to be expected.
    constexpr int64_t kEnough = 12;
    lab_.SetWantsCause(failed_ < kEnough);
    Verdict verdict = property_.check(c, lab_);
    lab_.SetWantsCause(true);
    slow_deaths_.Count(before, lab_.session().stats(), options_);
    // What was being waited for says nothing.
    if (lab_.session().interrupted() && IsTimeUp()) return Answer::kStop;
    if (!Count(verdict)) return Answer::kSaysNothing;
    if (observer_.on_case) observer_.on_case(property_, result_.cases_run(), result_.wanted);
    if (verdict.kind != VerdictKind::kFail) return Answer::kHolds;
    ++failed_;
    hangs_ += verdict.cause == Cause::kHang ? 1 : 0;
    Consider(c, std::move(verdict));
    return pending_ || hangs_ >= options_.max_hangs || DiesSlowly() ? Answer::kStop
                                                                    : Answer::kHolds;
  }

  // A signature met for the first time, waived or not, is kept to be looked into.
  void Consider(const ModelCase& c, Verdict verdict) {
    const size_t sort = SortOf(c, verdict);
    const Signature signature = SignatureOf(verdict);
    if (findings_.at(sort) >= options_.max_findings || IsKnown(signature, sort)) return;
    known_.at(sort).insert(signature);
    pending_ = {c, std::move(verdict)};
  }

  // As in PropertyRun: a failure without a class is one of any kind that shares all else with it, and of those with
  // one there is a limit.
  bool IsKnown(const Signature& signature, size_t sort) const {
    Signature any_class = signature;
    any_class.cause_class.clear();
    const auto count = [&](const Signature& pattern) {
      return std::ranges::count_if(known_.at(sort),
                                   [&](const Signature& known) { return Covers(pattern, known); });
    };
    return count(signature) > 0 || count(any_class) >= options_.max_classes;
  }

  // 0 = it counts, 1 = it is waived.
  size_t SortOf(const ModelCase& c, const Verdict& verdict) const {
    return observer_.is_waived && observer_.is_waived(SignatureOf(verdict), c, verdict) ? 1 : 0;
  }

  Signature SignatureOf(const Verdict& verdict) const {
    return {std::string(property_.id), verdict.cause, verdict.output, verdict.cause_class};
  }

  bool DiesSlowly() const {
    return result_.cases.count(VerdictKind::kFail) > 0 && slow_deaths_.AreEnough(options_);
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

  void Report(const Pending& pending) {
    const size_t sort = SortOf(pending.c, pending.verdict);
    ModelFinding found =
        MakeModelFinding(property_, pending.c, pending.verdict, lab_, options_, observer_);
    found.finding.cases_to_first = result_.cases_run();
    // A smaller case may have shown its class, and it may be one that is reported.
    const bool is_new = known_.at(sort).insert(found.finding.signature).second;
    if (!is_new && found.finding.signature != SignatureOf(pending.verdict)) return;
    ++findings_.at(sort);
    if (observer_.on_finding) observer_.on_finding(found);
    result_.findings.push_back(found.finding);
  }

  const ModelProperty& property_;
  ModelLab& lab_;
  RunOptions options_;  // of the part that runs
  const ModelObserver& observer_;
  const uint64_t seed_;
  const std::string unsupported_;             // why nothing is run; empty = it is
  std::array<std::set<Signature>, 2> known_;  // those that count, and those that are waived
  std::array<int, 2> findings_{};             // likewise: how many
  std::optional<Pending> pending_;
  int64_t draws_ = 0;
  int64_t end_ = 0;       // the cases after which this part ends
  bool is_over_ = false;  // there is no further part
  int hangs_ = 0;
  int64_t failed_ = 0;  // cases
  SlowDeaths slow_deaths_;
  RunFacts facts_;
  PropertyResult result_;
};

ModelPropertyRun::ModelPropertyRun(const ModelProperty& property, ModelLab& lab,
                                   const RunOptions& options, const ModelObserver& observer)
    : search_(std::make_unique<Search>(property, lab, options, observer)) {}
ModelPropertyRun::ModelPropertyRun(ModelPropertyRun&&) noexcept = default;
ModelPropertyRun::~ModelPropertyRun() = default;

void ModelPropertyRun::RunTo(int64_t cases, const RunOptions& options) {
  search_->RunTo(cases, options);
}
void ModelPropertyRun::CutShort(const std::string& why) {
  search_->CutShort(why);
}
const PropertyResult& ModelPropertyRun::result() const {
  return search_->result();
}
PropertyResult ModelPropertyRun::Finish() {
  return search_->Finish();
}

PropertyResult RunModelProperty(const ModelProperty& property, ModelLab& lab,
                                const RunOptions& options, const ModelObserver& observer) {
  ModelPropertyRun run(property, lab, options, observer);
  run.RunTo(options.plan.cases_per_property, options);
  return run.Finish();
}

}  // namespace attest
