// attest replay, where the case is one of a model.

#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/cli/check_model.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/open_model.h"
#include "properties/harness/model/lab.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/terminal.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

int StatusOf(const Verdict& verdict) {
  switch (verdict.kind) {
    case VerdictKind::kPass:
    case VerdictKind::kMarginal:
      return kExitPass;
    case VerdictKind::kFail:
      return kExitFindings;
    default:
      return kExitInconclusive;
  }
}

std::string VerdictText(const ModelCaseFile& file, const ModelProperty& property,
                        const Verdict& verdict) {
  std::string text = fmt::format("\n{} {}: {}\n  claim: {}\n", Name(verdict.kind), file.model,
                                 property.id, property.claim);
  if (!verdict.reason.empty()) text += fmt::format("  {}\n", verdict.reason);
  if (!verdict.sentence.empty()) text += fmt::format("  {}\n", verdict.sentence);
  return text;
}

int Run(const ModelCaseFile& file, const ModelProperty& property, OpenedModel& model,
        std::optional<OpenedModel>& other) {
  std::optional<ModelLab> against;
  if (other) against.emplace(other->contract, *other->session);
  ModelLab lab(model.contract, *model.session, against ? &*against : nullptr);
  Print(Printable(ToToml(file)));
  const std::string unsupported = property.unsupported(model.contract, other.has_value());
  Verdict verdict;
  if (unsupported.empty()) {
    verdict = property.check(file.c, lab);
  } else {
    verdict.kind = VerdictKind::kUnsupported;
    verdict.reason = unsupported;
  }
  if (model.session->interrupted()) {
    return Complain(kExitInconclusive, "interrupted: nothing is said");
  }
  const std::string printed = model.session->TakeOutput();
  Print(Printable(VerdictText(file, property, verdict)));
  if (property.picture != nullptr && unsupported.empty()) {
    Print(Indent(property.picture(file.c, lab), "  "));
  }
  if (!printed.empty()) Print("the model printed:\n" + Indent(Printable(printed), "  "));
  return StatusOf(verdict);
}

}  // namespace

int ReplayModel(const std::string& path, const std::string& text, const std::string& model,
                const std::string& property, const OpenKernelOptions& open) {
  auto file = ParseModelCase(text, path);
  if (!file) return Complain(kExitUsage, file.error());
  if (!model.empty()) file->model = model;
  if (!property.empty()) file->property = property;
  const ModelProperty* found = FindModelProperty(file->property);
  if (found == nullptr) {
    return Complain(kExitUsage,
                    fmt::format("{}: property {}: no such property of models: 'attest list "
                                "model-properties' shows them",
                                path, file->property));
  }
  if (file->model.empty()) {
    return Complain(kExitUsage, fmt::format("{}: names no model: name one behind the file", path));
  }
  auto opened = OpenModel(file->model, open);
  if (!opened) return Complain(opened.error().status, opened.error().text);
  if (const std::string why = WhyInvalid(file->c, opened->contract); !why.empty()) {
    return Complain(kExitUsage, fmt::format("{}: {}", path, why));
  }
  std::optional<OpenedModel> other;
  if (!file->against.empty()) {
    auto against = OpenModel(file->against, open);
    if (!against) return Complain(against.error().status, against.error().text);
    other = std::move(*against);
  }
  return Run(*file, *found, *opened, other);
}

}  // namespace attest
