// attest replay: one case again, and what happened.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/tensor_shape.h"
#include "properties/harness/case/toml.h"
#include "properties/harness/cli/case_target.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/judge/oracle.h"
#include "properties/harness/lower/lower.h"
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
};

// A row of an output beside the reference, `lanes` wide; the witness's lane is pointed at.
struct RowTable {
  const Array* observed;
  const Array* expected;
  const Array* bound;  // null where the dtype has none
};

// More lanes than this say nothing that the first ones do not.
constexpr int64_t kMaxLanes = 24;

std::string Values(const RowTable& table, const Row& row, int64_t marked_lane) {
  const int64_t lanes = table.expected->shape[3];
  const int64_t first =
      std::max<int64_t>(0, std::min(marked_lane - kMaxLanes / 2, lanes - kMaxLanes));
  std::string text =
      fmt::format("  {:>6}  {:>16}  {:>16}  {:>10}\n", "lane", "reference", "observed", "bound");
  for (int64_t lane = first; lane < std::min(lanes, first + kMaxLanes); ++lane) {
    const auto at = [&](const Array& array) {
      return array.At(row.batch, row.head, row.query, lane);
    };
    text += fmt::format("  {:>6}  {:>16.9g}  {:>16.9g}  {:>10}{}\n", lane, at(*table.expected),
                        at(*table.observed),
                        table.bound == nullptr ? "none" : fmt::format("{:.3g}", at(*table.bound)),
                        lane == marked_lane ? "  <" : "");
  }
  return text;
}

std::optional<Outcome> RunAlone(const Case& c, Oracle& oracle, OpenedKernel& kernel) {
  const auto lowered = Lower(c, oracle.InputsOf(0), kernel.contract);
  if (!lowered) return std::nullopt;
  const auto results = kernel.session->Run(std::span(&lowered->call, 1));
  Outcome outcome = Lift(c, kernel.contract, *lowered, results.at(0));
  return outcome.status == OutcomeStatus::kComputed ? std::optional(std::move(outcome))
                                                    : std::nullopt;
}

// The case that the witness's value is from: one of those that the property derives, or `c` itself.
Case CaseAtFault(const CaseTarget& target, const Verdict& verdict) {
  const Derived derived = target.property->derive(target.file.c, target.opened.contract);
  return verdict.witness && verdict.call < derived.cases.size() ? derived.cases[verdict.call]
                                                                : target.file.c;
}

// A derived case differs from the file's; it is spelled out where that is short.
std::string CaseAtFaultText(const Case& at_fault, const Case& c) {
  constexpr int64_t kShort = 200;  // elements: about a screen
  if (SameCase(at_fault, c) || DataElements(at_fault.problem) > kShort) return "";
  CaseFile file;
  file.c = at_fault;
  file.c.origin.clear();
  return "the derived case that the value is from:\n" + Indent(ToToml(file), "  ");
}

// What the kernel makes of a case in the witness's row. "" where there is nothing to show: no
// witness, or no values.
std::string WitnessRowText(const Case& c, const Verdict& verdict, OpenedKernel& kernel) {
  const auto row = WitnessRow(c.problem, verdict);
  if (!row) return "";
  Oracle oracle(std::span(&c, 1), kernel.contract);
  const auto outcome = RunAlone(c, oracle, kernel);
  if (!outcome) return "";
  const Reference& reference = oracle.ReferenceOf(0);
  const Bound* bound = HasBound(c.problem.dtype) ? &oracle.BoundOf(0) : nullptr;
  RowTable table{&outcome->out, &reference.out, bound == nullptr ? nullptr : &bound->out};
  if (verdict.output == "lse") {
    table = {&outcome->lse, &reference.lse, bound == nullptr ? nullptr : &bound->lse};
  } else if (verdict.output == "weights") {
    table = {&outcome->weights, &reference.weights, bound == nullptr ? nullptr : &bound->weights};
  }
  if (table.observed->shape != table.expected->shape) return "";  // not offered by the kernel
  return fmt::format("{} of batch item {}, head {}, query {}:\n{}",
                     verdict.output.empty() ? "out" : verdict.output, row->batch, row->head,
                     row->query, Values(table, *row, verdict.witness->index[3]));
}

std::string VerdictText(const CaseTarget& target, const CaseResult& result) {
  const Verdict& verdict = result.verdict;
  std::string text =
      fmt::format("\n{} {}: {}\n", Name(verdict.kind), target.kernel, target.property->id);
  text += fmt::format("  claim: {}\n", target.property->claim);
  if (!result.applied) text += "  the case lies outside the claim\n";
  if (!verdict.reason.empty()) text += fmt::format("  {}\n", verdict.reason);
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
  auto target = OpenCaseTarget(arguments.path, arguments.property, arguments.kernel, options);
  if (!target) return Complain(kExitUsage, target.error());
  Print(Printable(ToToml(target->file)));
  const Case& c = target->file.c;
  const CaseResult result =
      RunCase(*target->property, c, target->opened.contract, *target->opened.session);
  const std::string printed = target->opened.session->TakeOutput();
  Print(Printable(VerdictText(*target, result)));
  const Case at_fault = CaseAtFault(*target, result.verdict);
  Print(Printable(CaseAtFaultText(at_fault, c)));
  Print(PictureText(at_fault.problem, WitnessRow(at_fault.problem, result.verdict)));
  Print(WitnessRowText(at_fault, result.verdict, target->opened));
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
  command->callback([arguments, &line] { line.run = [arguments] { return Replay(*arguments); }; });
}

}  // namespace attest
