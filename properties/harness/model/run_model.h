// Many cases of one property on one model: draw, run, shrink what fails, confirm it. What harness/runner does for
// kernels, with its plans, seeds, loops, passes and rules of conclusion. Callers: attest check-model, attest shrink.
#ifndef ATTEST_HARNESS_MODEL_RUN_MODEL_H_
#define ATTEST_HARNESS_MODEL_RUN_MODEL_H_

#include <functional>
#include <memory>
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
  // Asked, not told: which failures are accepted, as RunOptions::is_waived. Empty = none.
  std::function<bool(const Signature&, const ModelCase&, const Verdict&)> is_waived;
};

// One property on the model that `lab` holds, run in parts as a PropertyRun is: cases and findings are those of one
// run to the end, whatever the parts.
class ModelPropertyRun {
 public:
  // What is referred to must outlive the run.
  ModelPropertyRun(const ModelProperty& property, ModelLab& lab, const RunOptions& options,
                   const ModelObserver& observer);
  ModelPropertyRun(ModelPropertyRun&&) noexcept;
  ~ModelPropertyRun();

  // Runs on until this shard's share of `cases` has been run in all, or of as many as the property's cost leaves.
  void RunTo(int64_t cases, const RunOptions& options);
  // For a property that is run no further though its plan goes on.
  void CutShort(const std::string& why);
  // So far: counts and findings, but no verdict yet.
  const PropertyResult& result() const;
  // With the verdict. The last call.
  PropertyResult Finish();

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

// Shrinks and confirms the failure `verdict` of a case. What does not recur each time says so in its verdict's reason
// ("intermittent 1 of 3"); so does what the end of the run left no time to run again ("reruns not finished").
ModelFinding MakeModelFinding(const ModelProperty& property, const ModelCase& failing,
                              const Verdict& verdict, ModelLab& lab, const RunOptions& options,
                              const ModelObserver& observer);

// Runs a whole property.
PropertyResult RunModelProperty(const ModelProperty& property, ModelLab& lab,
                                const RunOptions& options, const ModelObserver& observer);

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_RUN_MODEL_H_
