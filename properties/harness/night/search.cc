#include "properties/harness/night/search.h"

#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/report/merge_runs.h"

namespace attest {
namespace {

// Cases of a property in the first round, so that every property has had its turn early in the night; in
// the others; and from how many on a property that was cut short has been run.
constexpr int64_t kFirstCases = 40;
constexpr int64_t kCases = 200;
constexpr int64_t kEnoughCases = 40;

bool IsOver(PropertySearch::Clock::time_point end, const RunOptions& options) {
  return PropertySearch::Clock::now() >= end || (options.stop != nullptr && options.stop->load());
}

}  // namespace

PropertySearch::PropertySearch(std::vector<const Property*> properties, const Contract& contract,
                               KernelSession& session, uint64_t seed)
    : properties_(std::move(properties)), contract_(contract), session_(session), seed_(seed) {}

void PropertySearch::Restore(std::vector<PropertyResult> results) {
  for (PropertyResult& result : results) {
    std::string property = result.property;
    results_.insert_or_assign(std::move(property), std::move(result));
  }
  // Those that have not had their turn come first.
  while (at_ < properties_.size() && results_.contains(std::string(properties_[at_]->id))) ++at_;
}

void PropertySearch::Run(Clock::time_point end, const RunOptions& options, RunObserver& observer,
                         const std::function<void(RunOptions&)>& instruct,
                         const std::function<void()>& done) {
  while (!IsOver(end, options) && patience_.WhyNotRun().empty() && !properties_.empty()) {
    if (at_ == properties_.size()) {
      at_ = 0;
      ++round_;
    }
    RunOptions own = options;
    own.plan = {kNightPlan, round_ == 0 ? kFirstCases : kCases};
    own.seed = MixIn(seed_, static_cast<uint64_t>(part_++));
    own.stop_at = end;
    instruct(own);
    RunOne(*properties_[at_], own, observer);
    done();
  }
}

void PropertySearch::RunOne(const Property& property, RunOptions options, RunObserver& observer) {
  PropertyResult part = RunProperty(property, contract_, session_, options, observer);
  patience_.Note(part);
  const bool is_cut = IsOver(*options.stop_at, options) && part.cases_run() < part.wanted;
  if (is_cut) part.wanted = part.cases_run();  // the next slice goes on with this property
  PropertyResult& whole = results_[std::string(property.id)];
  whole.kernel = part.kernel;
  whole.property = part.property;
  MergeResult(part, fmt::format("round {}", round_), whole);
  if (!is_cut || whole.cases_run() >= kEnoughCases) ++at_;
}

std::vector<PropertyResult> PropertySearch::Results() const {
  std::vector<PropertyResult> all;
  for (const Property* property : properties_) {
    const auto found = results_.find(std::string(property->id));
    PropertyResult result;
    if (found != results_.end()) result = found->second;
    result.kernel = session_.spec().text;
    result.property = property->id;
    const bool is_short =
        found == results_.end() || (result.verdict != VerdictKind::kFail && round_ == 0 &&
                                    at_ < properties_.size() && properties_[at_] == property);
    if (is_short && result.cases_run() < kEnoughCases) {
      const std::string why = patience_.WhyNotRun();
      result.verdict = VerdictKind::kInconclusive;
      result.reason = why.empty() ? "the night ended before it had its turn" : "not run: " + why;
    }
    all.push_back(std::move(result));
  }
  return all;
}

std::vector<PropertyResult> PropertySearch::Parts() const {
  std::vector<PropertyResult> parts;
  for (const auto& [id, result] : results_) parts.push_back(result);
  return parts;
}

}  // namespace attest
