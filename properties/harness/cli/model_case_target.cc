#include "properties/harness/cli/model_case_target.h"

#include <utility>

#include <fmt/format.h>

#include "properties/harness/cli/case_target.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

tl::unexpected<OpenError> Refuse(std::string error) {
  return tl::unexpected(OpenError{kExitUsage, std::move(error)});
}

// A model's promises are its own: there is no published contract to hold it to.
std::string WhyNoSuchOptions(const ModelCaseArguments& arguments) {
  const bool is_asked = !arguments.open.contract.empty() || arguments.open.strict;
  return is_asked
             ? fmt::format("{}: is the case of a model: --contract and --strict are of kernels",
                           arguments.path)
             : "";
}

}  // namespace

ModelCaseTarget::ModelCaseTarget(ModelCaseFile named, const ModelProperty& checked,
                                 OpenedModel model, std::optional<OpenedModel> other)
    : file(std::move(named)),
      property(checked),
      model_(std::make_unique<OpenedModel>(std::move(model))) {
  if (other) {
    other_ = std::make_unique<OpenedModel>(std::move(*other));
    other_lab_ = std::make_unique<ModelLab>(other_->contract, *other_->session);
  }
  lab_ = std::make_unique<ModelLab>(model_->contract, *model_->session, other_lab_.get());
}

Verdict ModelCaseTarget::Check() {
  const std::string unsupported = property.unsupported(lab_->contract(), other_lab_ != nullptr);
  if (unsupported.empty()) return property.check(file.c, *lab_);
  Verdict verdict;
  verdict.kind = VerdictKind::kUnsupported;
  verdict.reason = unsupported;
  return verdict;
}

tl::expected<ModelCaseTarget, OpenError> OpenModelCase(const ModelCaseArguments& arguments) {
  const std::string& path = arguments.path;
  if (std::string why = WhyNoSuchOptions(arguments); !why.empty()) return Refuse(std::move(why));
  auto file = ParseModelCase(arguments.text, path);
  if (!file) return Refuse(file.error());
  if (!arguments.model.empty()) file->model = arguments.model;
  if (!arguments.property.empty()) file->property = arguments.property;
  const ModelProperty* property = FindModelProperty(file->property);
  if (property == nullptr) {
    return Refuse(
        fmt::format("{}: property {}: no such property of models: 'attest list "
                    "model-properties' shows them",
                    path, file->property));
  }
  if (file->model.empty()) {
    return Refuse(fmt::format("{}: names no model: name one behind the file", path));
  }
  auto opened = OpenModel(file->model, arguments.open);
  if (!opened) {
    OpenError error = opened.error();
    if (arguments.model.empty()) error.text += WhoNamed(path);
    return tl::unexpected(std::move(error));
  }
  if (const std::string why = WhyInvalid(file->c, opened->contract); !why.empty()) {
    return Refuse(fmt::format("{}: {}", path, why));
  }
  std::optional<OpenedModel> other;
  if (!file->against.empty()) {
    auto against = OpenModel(file->against, arguments.open);
    if (!against) return tl::unexpected(against.error());
    other = std::move(*against);
  }
  return ModelCaseTarget(std::move(*file), *property, std::move(*opened), std::move(other));
}

}  // namespace attest
