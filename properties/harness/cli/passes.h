// All properties on one kernel, breadth first: each gets the cases of plan smoke before any gets those of quick, and
// so on up to the plan's own. A fault that one property alone sees is met after a few thousand cases
// then, wherever that property stands in the list. Caller: attest check.
#ifndef ATTEST_HARNESS_CLI_PASSES_H_
#define ATTEST_HARNESS_CLI_PASSES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/report/waivers.h"
#include "properties/harness/runner/run_property.h"

namespace attest {

// What is run on each kernel.
struct KernelPlan {
  std::vector<const Property*> properties;
  RunOptions run;
  std::optional<int64_t> max_findings, stop_after;
  std::vector<Waiver> waivers;
};

// When the part that starts now must end, a part being one pass of one property; nullopt = it need not.
using ShareOfTime = std::function<std::optional<std::chrono::steady_clock::time_point>()>;

// One result per property, in the plan's order. `kernel` is asked for its name and contract, to
// find the waivers that apply. Findings go to `observer` as they are made.
std::vector<PropertyResult> RunInPasses(const KernelPlan& plan, OpenedKernel& opened,
                                        const KernelReport& kernel, RunObserver& observer,
                                        const ShareOfTime& share_of_time);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_PASSES_H_
