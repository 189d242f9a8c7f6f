#include "properties/harness/cli/passes.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/runner/patience.h"

namespace attest {
namespace {

class Passes {
 public:
  Passes(const KernelPlan& plan, OpenedKernel& opened, const KernelReport& kernel,
         RunObserver& observer)
      : plan_(plan), kernel_(kernel), options_(plan.run) {
    options_.called = std::make_shared<std::deque<Case>>();  // of this kernel alone
    if (!plan.waivers.empty()) {
      options_.is_waived = [this](const Failure& failure) {
        return IsWaived(failure.signature, failure.c, failure.verdict);
      };
    }
    for (const Property* property : plan.properties) {
      runs_.emplace_back(*property, opened.contract, *opened.session, options_, observer);
    }
  }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  void RunTo(int64_t cases, const ShareOfTime& share_of_time) {
    for (PropertyRun& run : runs_) {
      // Taken by those that do not run too: what they do not use goes to the others.
      const auto share = share_of_time();
      if (const std::string why = WhyNotRun(); !why.empty()) {
        run.CutShort(why);
        continue;
      }
      LimitFindings();
      options_.stop_at = share;
      const size_t before = run.result().findings.size();
      run.RunTo(cases, options_);
      for (size_t i = before; i < run.result().findings.size(); ++i) Note(run.result().findings[i]);
      patience_.Note(run.result());
    }
  }

  std::vector<PropertyResult> Finish() {
    std::vector<PropertyResult> results;
    for (PropertyRun& run : runs_) results.push_back(run.Finish());
    return results;
  }

 private:
  std::string WhyNotRun() const {
    return plan_.stop_after && failed_ >= *plan_.stop_after
               ? fmt::format("the kernel has {} findings", failed_)
               : patience_.WhyNotRun();
  }

  bool IsWaived(const Signature& signature, const Case& c, const Verdict& verdict) const {
    return !ReasonToWaive(plan_.waivers, kernel_, signature, c, verdict).empty();
  }

  void Note(const Finding& finding) {
    const bool waived = IsWaived(finding.signature, finding.smallest, finding.verdict);
    (waived ? options_.known_waived : options_.known).insert(finding.signature);
    failed_ += finding.verdict.kind == VerdictKind::kFail && !waived ? 1 : 0;
  }

  // For the next part; there are fewer findings than stop_after.
  void LimitFindings() {
    // Where there are to be few they come from many properties: a fault in many lights is told more surely.
    int64_t limit = plan_.max_findings || plan_.stop_after ? 1 : plan_.run.max_findings;
    if (plan_.max_findings) {
      limit = std::min(limit, std::max<int64_t>(*plan_.max_findings - failed_, 0));
    }
    if (plan_.stop_after) limit = std::min(limit, *plan_.stop_after - failed_);
    options_.max_findings = static_cast<int>(limit);
    options_.ends_when_full = plan_.stop_after && failed_ + limit >= *plan_.stop_after;
  }

  const KernelPlan& plan_;
  const KernelReport& kernel_;
  RunOptions options_;
  std::vector<PropertyRun> runs_;
  int64_t failed_ = 0;  // findings that count
  Patience patience_;
};

}  // namespace

std::vector<PropertyResult> RunInPasses(const KernelPlan& plan, OpenedKernel& opened,
                                        const KernelReport& kernel, RunObserver& observer,
                                        const ShareOfTime& share_of_time) {
  Passes passes(plan, opened, kernel, observer);
  for (const int64_t cases : PassesOf(plan.run.plan)) passes.RunTo(cases, share_of_time);
  return passes.Finish();
}

}  // namespace attest
