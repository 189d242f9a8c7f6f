// attest replay: one case again, and what happened.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/case/toml.h"
#include "properties/harness/cli/case_target.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/model_case_target.h"
#include "properties/harness/model/model_case.h"
#include "properties/harness/report/case_view.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/report/weights_text.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

struct ReplayArguments {
  std::string path;
  std::string kernel;
  std::string property;
  OpenKernelOptions open;
};

std::string RowText(const RowView& view) {
  std::string text =
      fmt::format("{} of batch item {}, head {}, query {}; the row is {}:\n", view.output,
                  view.row.batch, view.row.head, view.row.query, view.state);
  text += fmt::format("  {:>6}  {:>16}  {:>16}  {:>9}  {:>9}  {:>9}  {:>9}\n", "lane", "reference",
                      "observed", "error", "bound W", "error/W", "P");
  for (const RowView::Lane& lane : view.lanes) {
    text += fmt::format("  {:>6}  {:>16.9g}  {:>16.9g}  {:>9.3g}  {:>9.3g}  {:>9}  {:>9.3g}{}\n",
                        lane.lane, lane.expected, lane.observed, lane.error, lane.worst,
                        RatioText(lane.error == 0 ? 0 : lane.error / lane.worst), lane.probable,
                        lane.lane == view.marked_lane ? "  <" : "");
  }
  if (IsRightByItself(view)) {
    text += "alone it is within the bound: the claim is about several calls\n";
  }
  return text;
}

// Whether the file is a finding of this kernel and this property.
bool RecordsAFailure(const CaseTarget& target) {
  return target.file.kernel == target.kernel && target.file.property == target.property->id;
}

std::string VerdictText(const CaseTarget& target, const CaseResult& result) {
  const Verdict& verdict = result.verdict;
  std::string text =
      fmt::format("\n{} {}: {}\n", Name(verdict.kind), target.kernel, target.property->id);
  text += fmt::format("  claim: {}\n", target.property->claim);
  if (const size_t calls = target.file.before.size(); calls > 0) {
    text += fmt::format("  behind {} call{} on a fresh kernel, the [[before]] of the file\n", calls,
                        calls == 1 ? "" : "s");
  }
  if (!result.applied) text += "  the case lies outside the claim\n";
  if (!verdict.reason.empty()) text += fmt::format("  {}\n", verdict.reason);
  const bool passes = verdict.kind == VerdictKind::kPass || verdict.kind == VerdictKind::kMarginal;
  if (passes && result.failures.empty() && RecordsAFailure(target)) {
    text +=
        "  the file records a failure of this kernel, which is not seen here: the kernel has "
        "changed, or it "
        "depends on the calls before\n";
  }
  if (!verdict.sentence.empty()) text += fmt::format("  {}\n", verdict.sentence);
  for (const Failure& failure : result.failures) {
    if (failure.signature.property == target.property->id) continue;
    text +=
        fmt::format("  also: FAIL {}: {}\n", ToString(failure.signature), failure.verdict.sentence);
  }
  return text;
}

int StatusOf(const CaseResult& result) {
  if (!result.failures.empty() || result.verdict.kind == VerdictKind::kFail) return kExitFindings;
  const bool passed =
      result.verdict.kind == VerdictKind::kPass || result.verdict.kind == VerdictKind::kMarginal;
  return passed && result.applied ? kExitPass : kExitInconclusive;
}

// The calls that the failure needs, on a kernel that has seen no others. Returns why one is not made; empty = all are.
std::string MakeCallsBefore(CaseTarget& target) {
  if (target.file.before.empty()) return "";
  target.opened.session->Refresh();
  return MakeCalls(target.file.before, target.opened.contract, *target.opened.session);
}

// The first call of a session may take ten times the deadline. Where the file records a failure that the first run
// does not show, a second is held to the deadline itself, as in `attest check`.
CaseResult RunSettled(CaseTarget& target) {
  const auto run = [&] {
    // What needs calls before it has them for its cause, whatever the rows look like.
    CauseFilter wants_cause;
    if (!target.file.before.empty()) wants_cause = WantsNoCause;
    return RunBehind(target.file.before, *target.property, target.file.c, target.opened.contract,
                     *target.opened.session, wants_cause);
  };
  CaseResult result = run();
  const bool is_unexpected = result.failures.empty() && RecordsAFailure(target);
  return is_unexpected && !target.opened.session->interrupted() ? run() : result;
}

int Replay(const ReplayArguments& arguments) {
  if (const auto fine = CheckOpenOptions(arguments.open); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  if (const std::string text = ContentOf(arguments.path); IsModelCase(text)) {
    return ReplayModel(
        {arguments.path, text, arguments.kernel, arguments.property, arguments.open});
  }
  auto target =
      OpenCaseTarget(arguments.path, arguments.property, arguments.kernel, arguments.open);
  if (!target) return Complain(target.error().status, target.error().text);
  Print(Printable(ToToml(target->file)));
  const Case& c = target->file.c;
  if (const std::string why_not = MakeCallsBefore(*target); !why_not.empty()) {
    return Complain(kExitInconclusive, fmt::format("{}: a call of its [[before]] is not made: {}",
                                                   arguments.path, why_not));
  }
  const CaseResult result = RunSettled(*target);
  if (target->opened.session->interrupted())
    return Complain(kExitInconclusive, "interrupted: nothing is said");
  const std::string printed = target->opened.session->TakeOutput();
  Print(Printable(VerdictText(*target, result)));
  const auto derived =
      DerivedAtFault(*target->property, c, target->opened.contract, result.verdict);
  if (derived) Print(Printable(DerivedCaseText(*derived)));
  const Case& at_fault = derived ? *derived : c;
  Print(PictureOf(at_fault, result.verdict));
  Print(Indent(WeightsText(at_fault, target->opened.contract.semantics), "  "));
  KernelSession* session = SessionAtFault(*target->property, c, target->opened.contract,
                                          result.verdict, *target->opened.session);
  MakeCallsBefore(*target);
  const auto view = session == nullptr
                        ? std::nullopt
                        : LookAt(at_fault, result.verdict, target->opened.contract, *session);
  if (view) Print(RowText(view->row));
  if (!printed.empty()) Print("the kernel printed:\n" + Indent(Printable(printed), "  "));
  return StatusOf(result);
}

}  // namespace

void AddReplay(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = app.add_subcommand(
      "replay", "Run one case again and show what happens: exit status 0 passes, 1 fails");
  command->add_option("CASE", arguments->path, "The case file (TOML)")->required();
  command->add_option("KERNEL", arguments->kernel,
                      "The kernel (or model); else the one the file names");
  command
      ->add_option("--property", arguments->property, "The property; else the one the file names")
      ->type_name("ID");
  AddOpenOptions(*command, arguments->open);
  command->callback([arguments, &line] { line.run = [arguments] { return Replay(*arguments); }; });
}

}  // namespace attest
