// attest replay: one case again, and what happened.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/toml.h"
#include "properties/harness/cli/case_target.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/report/case_view.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/picture.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

struct ReplayArguments {
  std::string path;
  std::string kernel;
  std::string property;
  int64_t deadline_ms = 2000;
  std::string contract;
  bool strict = false;
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
  return text;
}

std::string VerdictText(const CaseTarget& target, const CaseResult& result) {
  const Verdict& verdict = result.verdict;
  std::string text =
      fmt::format("\n{} {}: {}\n", Name(verdict.kind), target.kernel, target.property->id);
  text += fmt::format("  claim: {}\n", target.property->claim);
  if (!result.applied) text += "  the case lies outside the claim\n";
  if (!verdict.reason.empty()) text += fmt::format("  {}\n", verdict.reason);
  const bool passes = verdict.kind == VerdictKind::kPass || verdict.kind == VerdictKind::kMarginal;
  const bool as_recorded =
      target.file.kernel == target.kernel && target.file.property == target.property->id;
  if (passes && result.failures.empty() && as_recorded) {
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

std::string PictureText(const Problem& problem, const std::optional<Row>& row) {
  const std::string picture = VisiblePicture(problem, row);
  if (picture.empty()) return "";
  return fmt::format("what batch item {}, head {} sees (# visible, . hidden):\n{}",
                     row ? row->batch : 0, row ? row->head : 0, Indent(picture, "  "));
}

int StatusOf(const CaseResult& result) {
  if (!result.failures.empty() || result.verdict.kind == VerdictKind::kFail) return kExitFindings;
  const bool passed =
      result.verdict.kind == VerdictKind::kPass || result.verdict.kind == VerdictKind::kMarginal;
  return passed && result.applied ? kExitPass : kExitInconclusive;
}

int Replay(const ReplayArguments& arguments) {
  OpenKernelOptions options;
  options.session.deadline = std::chrono::milliseconds(arguments.deadline_ms);
  options.contract = arguments.contract;
  options.strict = arguments.strict;
  auto target = OpenCaseTarget(arguments.path, arguments.property, arguments.kernel, options);
  if (!target) return Complain(target.error().status, target.error().text);
  Print(Printable(ToToml(target->file)));
  const Case& c = target->file.c;
  const CaseResult result =
      RunCase(*target->property, c, target->opened.contract, *target->opened.session);
  if (target->opened.session->interrupted())
    return Complain(kExitInconclusive, "interrupted: nothing is said");
  const std::string printed = target->opened.session->TakeOutput();
  Print(Printable(VerdictText(*target, result)));
  const auto derived =
      DerivedAtFault(*target->property, c, target->opened.contract, result.verdict);
  if (derived) Print(Printable(DerivedCaseText(*derived)));
  const Case& at_fault = derived ? *derived : c;
  Print(PictureText(at_fault.problem, WitnessRow(at_fault.problem, result.verdict)));
  KernelSession* session = SessionAtFault(*target->property, c, target->opened.contract,
                                          result.verdict, *target->opened.session);
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
  command->add_option("KERNEL", arguments->kernel, "The kernel; else the one the file names");
  command
      ->add_option("--property", arguments->property, "The property; else the one the file names")
      ->type_name("ID");
  command->add_option("--deadline", arguments->deadline_ms, "Milliseconds one kernel call may take")
      ->check(CLI::Range(int64_t{1}, int64_t{3600000}))
      ->capture_default_str();
  command
      ->add_option("--contract", arguments->contract,
                   "Hold the kernel to this published contract, as `attest check` was told to")
      ->type_name("NAME");
  command->add_flag("--strict", arguments->strict, "With --contract: to all of it");
  command->callback([arguments, &line] { line.run = [arguments] { return Replay(*arguments); }; });
}

}  // namespace attest
