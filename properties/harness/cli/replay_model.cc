// attest replay, where the case is one of a model.

#include <memory>
#include <string>

#include <fmt/format.h>

#include "properties/harness/cli/console.h"
#include "properties/harness/cli/model_case_target.h"
#include "properties/harness/model/sides_text.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/terminal.h"

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

}  // namespace

int ReplayModel(const ModelCaseArguments& arguments) {
  auto target = OpenModelCase(arguments);
  if (!target) return Complain(target.error().status, target.error().text);
  Print(Printable(ToToml(target->file)));
  const auto trace = std::make_shared<LogitsTrace>();
  target->lab().Keep(trace);
  if (target->other() != nullptr) target->other()->Keep(trace);
  const Verdict verdict = target->Check();
  KernelSession& session = target->lab().session();
  if (session.interrupted()) return Complain(kExitInconclusive, "interrupted: nothing is said");
  const std::string printed = session.TakeOutput();
  Print(Printable(VerdictText(target->file, target->property, verdict)));
  if (verdict.witness && trace->sides) Print(Printable(Indent(SidesText(*trace->sides), "  ")));
  if (target->property.picture != nullptr && verdict.kind != VerdictKind::kUnsupported) {
    Print(Indent(target->property.picture(target->file.c, target->lab()), "  "));
  }
  if (!printed.empty()) Print("the model printed:\n" + Indent(Printable(printed), "  "));
  return StatusOf(verdict);
}

}  // namespace attest
