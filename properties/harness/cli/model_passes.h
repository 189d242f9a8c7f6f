// All properties of models on one model, breadth first, as passes.h has it for kernels. Caller: attest check-model.
#ifndef ATTEST_HARNESS_CLI_MODEL_PASSES_H_
#define ATTEST_HARNESS_CLI_MODEL_PASSES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "properties/harness/cli/passes.h"
#include "properties/harness/model/run_model.h"

namespace attest {

// What is run on each model.
struct ModelPlan {
  std::vector<const ModelProperty*> properties;
  RunOptions run;
  std::optional<int64_t> stop_after;
};

// One result per property, in the plan's order. Findings go to `observer` as they are made.
std::vector<PropertyResult> RunModelInPasses(const ModelPlan& plan, ModelLab& lab,
                                             const ModelObserver& observer,
                                             const ShareOfTime& share_of_time);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_MODEL_PASSES_H_
