// Many cases of one property on one model: draw, run, shrink what fails, confirm it. What harness/runner does for
// kernels, with its plans, seeds, loops and rules of conclusion; of a run's options those that a model needs
// none of (waivers, passes) do nothing here. Caller: attest check-model.
#ifndef ATTEST_HARNESS_MODEL_RUN_MODEL_H_
#define ATTEST_HARNESS_MODEL_RUN_MODEL_H_

#include <functional>
#include <string>

#include "properties/harness/judge/verdict.h"
#include "properties/harness/model/lab.h"
#include "properties/harness/model/model_property.h"
#include "properties/harness/runner/run_property.h"

namespace attest {

// A confirmed failure with its smallest case. `finding` holds all that is the same for kernels; its own
// case is empty.
struct ModelFinding {
  Finding finding;
  ModelCase smallest;
  std::string picture;  // lines to look at beside the sentence; often empty
};

// Follows a run.
struct ModelObserver {
  std::function<void(const ModelProperty&, int64_t done, int64_t of)> on_case;
  std::function<void(const ModelFinding&)> on_finding;
};

// Runs one property on the model that `lab` holds.
PropertyResult RunModelProperty(const ModelProperty& property, ModelLab& lab,
                                const RunOptions& options, const ModelObserver& observer);

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_RUN_MODEL_H_
