#include "properties/harness/cli/model_passes.h"

#include <algorithm>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "properties/harness/runner/patience.h"

namespace attest {
namespace {

class ModelPasses {
 public:
  ModelPasses(const ModelPlan& plan, ModelLab& lab, const ModelObserver& observer)
      : plan_(plan), observer_(observer), options_(plan.run) {
    counting_ = observer;
    counting_.on_finding = [this](const ModelFinding& found) { Note(found); };
    for (const ModelProperty* property : plan.properties) {
      runs_.emplace_back(*property, lab, options_, counting_);
    }
  }
  ModelPasses(const ModelPasses&) = delete;
  ModelPasses& operator=(const ModelPasses&) = delete;

  void RunTo(int64_t cases, const ShareOfTime& share_of_time) {
    for (ModelPropertyRun& run : runs_) {
      // Taken by those that do not run too: what they do not use goes to the others.
      const auto share = share_of_time();
      if (const std::string why = WhyNotRun(); !why.empty()) {
        run.CutShort(why);
        continue;
      }
      LimitFindings();
      options_.stop_at = share;
      run.RunTo(cases, options_);
      patience_.Note(run.result());
    }
  }

  std::vector<PropertyResult> Finish() {
    std::vector<PropertyResult> results;
    for (ModelPropertyRun& run : runs_) results.push_back(run.Finish());
    return results;
  }

 private:
  std::string WhyNotRun() const {
    return plan_.stop_after && failed_ >= *plan_.stop_after
               ? fmt::format("the model has {} findings", failed_)
               : patience_.WhyNotRun();
  }

  void Note(const ModelFinding& found) {
    const Finding& finding = found.finding;
    const bool waived = observer_.is_waived &&
                        observer_.is_waived(finding.signature, found.smallest, finding.verdict);
    failed_ += finding.verdict.kind == VerdictKind::kFail && !waived ? 1 : 0;
    observer_.on_finding(found);
  }

  // For the next part; there are fewer findings than stop_after.
  void LimitFindings() {
    if (!plan_.stop_after) return;
    // Few findings come from many properties: a fault in many lights is told more surely.
    options_.max_findings = 1;
    options_.ends_when_full = failed_ + 1 >= *plan_.stop_after;
  }

  const ModelPlan& plan_;
  const ModelObserver& observer_;
  ModelObserver counting_;
  RunOptions options_;
  std::vector<ModelPropertyRun> runs_;
  int64_t failed_ = 0;  // findings that count
  Patience patience_;
};

}  // namespace

std::vector<PropertyResult> RunModelInPasses(const ModelPlan& plan, ModelLab& lab,
                                             const ModelObserver& observer,
                                             const ShareOfTime& share_of_time) {
  ModelPasses passes(plan, lab, observer);
  for (const int64_t cases : PassesOf(plan.run.plan)) passes.RunTo(cases, share_of_time);
  return passes.Finish();
}

}  // namespace attest
