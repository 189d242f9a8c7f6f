// A case file of a model opened for another run: the case, its property, the model, and the one beside it. Callers:
// attest replay, attest shrink.
#ifndef ATTEST_HARNESS_CLI_MODEL_CASE_TARGET_H_
#define ATTEST_HARNESS_CLI_MODEL_CASE_TARGET_H_

#include <memory>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/cli/open_model.h"
#include "properties/harness/model/lab.h"
#include "properties/harness/model/model_property.h"

namespace attest {

// What the user wrote beside the file; model and property are the file's where they are empty.
struct ModelCaseArguments {
  std::string path;
  std::string text;  // the content of the file
  std::string model;
  std::string property;
  OpenKernelOptions open;
};

class ModelCaseTarget {
 public:
  ModelCaseTarget(ModelCaseFile named, const ModelProperty& checked, OpenedModel model,
                  std::optional<OpenedModel> other);

  ModelCaseFile file;
  const ModelProperty& property;
  ModelLab& lab() { return *lab_; }
  ModelLab* other() { return lab_->other(); }
  // The verdict on the file's case; UNSUPPORTED where the property is out of the model's reach.
  Verdict Check();

 private:
  std::unique_ptr<OpenedModel> model_, other_;  // where labs look for them, wherever this goes
  std::unique_ptr<ModelLab> other_lab_, lab_;
};

tl::expected<ModelCaseTarget, OpenError> OpenModelCase(const ModelCaseArguments& arguments);

// Runs the case again and shows what happens. Returns the exit status.
int ReplayModel(const ModelCaseArguments& arguments);
// Finds the smallest case that fails in the same way and writes it to `out`, or prints it where that is empty. Returns
// the exit status.
int ShrinkModel(const ModelCaseArguments& arguments, const std::string& out, int64_t budget);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_MODEL_CASE_TARGET_H_
