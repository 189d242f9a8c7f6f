#include <algorithm>

#include "properties/harness/runner/run_property.h"

namespace attest {

const std::vector<Plan>& Plans() {
  static const std::vector<Plan> kPlans = {
      {"quick", 120},         // less than ten seconds a kernel on one core
      {"ci", 2000},           // less than three minutes
      {"overnight", 100000},  // hours; best with --for or in shards
      {"smoke", 40},          // a few seconds: for the mutation gate, and while a kernel is written
  };
  return kPlans;
}

const Plan* FindPlan(std::string_view name) {
  const auto& plans = Plans();
  const auto found =
      std::find_if(plans.begin(), plans.end(), [&](const Plan& plan) { return plan.name == name; });
  return found == plans.end() ? nullptr : &*found;
}

std::vector<int64_t> PassesOf(const Plan& plan) {
  std::vector<int64_t> passes;
  for (const Plan& other : Plans()) {
    if (other.cases_per_property < plan.cases_per_property) {
      passes.push_back(other.cases_per_property);
    }
  }
  passes.push_back(plan.cases_per_property);
  std::ranges::sort(passes);
  return passes;
}

int64_t PropertyResult::cases_run() const {
  int64_t sum = 0;
  for (const auto& [kind, count] : cases) {
    if (kind != VerdictKind::kUnsupported) sum += count;
  }
  return sum;
}

}  // namespace attest
