// attest replay: one case again, and what happened.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/toml.h"
#include "properties/harness/cli/case_target.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/judge/compare.h"
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

// An output, beside the reference and its bounds in one row.
struct RowTable {
  const Array* observed;
  const Array* expected;
  std::vector<double> worst;     // W, by lane
  std::vector<double> probable;  // P
};

// More lanes than this say nothing that the first ones do not.
constexpr int64_t kMaxLanes = 24;

// Shares of the bound; where nothing is allowed and nothing is wrong, 0.
std::string RatioText(double error, double bound) {
  return error == 0 ? "0" : fmt::format("{:.3g}", error / bound);
}

std::string Values(const RowTable& table, const Row& row, int64_t marked_lane) {
  const int64_t lanes = table.expected->shape[3];
  const int64_t first =
      std::max<int64_t>(0, std::min(marked_lane - kMaxLanes / 2, lanes - kMaxLanes));
  std::string text = fmt::format("  {:>6}  {:>16}  {:>16}  {:>9}  {:>9}  {:>9}  {:>9}\n", "lane",
                                 "reference", "observed", "error", "bound W", "error/W", "P");
  for (int64_t lane = first; lane < std::min(lanes, first + kMaxLanes); ++lane) {
    const auto i = static_cast<size_t>(lane);
    const double expected = table.expected->At(row.batch, row.head, row.query, lane);
    const double observed = table.observed->At(row.batch, row.head, row.query, lane);
    const double error = SameBits(expected, observed) ? 0 : std::abs(observed - expected);
    text +=
        fmt::format("  {:>6}  {:>16.9g}  {:>16.9g}  {:>9.3g}  {:>9.3g}  {:>9}  {:>9.3g}{}\n", lane,
                    expected, observed, error, table.worst[i], RatioText(error, table.worst[i]),
                    table.probable[i], lane == marked_lane ? "  <" : "");
  }
  return text;
}

// What the row's bounds are worth.
std::string_view StateText(const Problem& problem, const Row& row, RowState state) {
  if (state == RowState::kUnconstrained) {
    return "unconstrained: a score or sum may overflow, so anything passes";
  }
  if (IsEmptyRow(problem, row)) return "empty: the contract says what is due";
  if (state == RowState::kUninformative) {
    return "uninformative: the bound W exceeds a tenth of V's range";
  }
  return "informative";
}

std::optional<Outcome> RunAlone(const Case& c, Oracle& oracle, OpenedKernel& kernel) {
  const auto lowered = Lower(c, oracle.InputsOf(0), kernel.contract);
  if (!lowered) return std::nullopt;
  const auto results = kernel.session->Run(std::span(&lowered->call, 1));
  Outcome outcome = Lift(c, kernel.contract, *lowered, results.at(0));
  return outcome.status == OutcomeStatus::kComputed ? std::optional(std::move(outcome))
                                                    : std::nullopt;
}

RowTable TableOf(const std::string& output, Oracle& oracle, const Outcome& outcome,
                 const Row& row) {
  const Reference& reference = oracle.ReferenceOf(0);
  const RowNumbers& worst = oracle.BoundOf(0).WorstOf(row);
  const RowNumbers& probable = oracle.BoundOf(0).ProbableOf(row);
  if (output == "lse") return {&outcome.lse, &reference.lse, {worst.lse}, {probable.lse}};
  if (output == "weights") {
    return {&outcome.weights, &reference.weights, worst.weights, probable.weights};
  }
  return {&outcome.out, &reference.out, worst.out, probable.out};
}

// What the kernel makes of a case in the witness's row. "" where there is nothing to show: no
// witness, or no values.
std::string WitnessRowText(const Case& c, const Verdict& verdict, OpenedKernel& kernel) {
  const auto row = WitnessRow(c.problem, verdict);
  if (!row) return "";
  Oracle oracle(std::span(&c, 1), kernel.contract);
  const auto outcome = RunAlone(c, oracle, kernel);
  if (!outcome) return "";
  const RowTable table = TableOf(verdict.output, oracle, *outcome, *row);
  if (table.observed->shape != table.expected->shape) return "";  // not offered by the kernel
  return fmt::format("{} of batch item {}, head {}, query {}; the row is {}:\n{}",
                     verdict.output.empty() ? "out" : verdict.output, row->batch, row->head,
                     row->query, StateText(c.problem, *row, oracle.BoundOf(0).StateOf(*row)),
                     Values(table, *row, verdict.witness->index[3]));
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
  if (!target) return Complain(target.error().status, target.error().text);
  Print(Printable(ToToml(target->file)));
  const Case& c = target->file.c;
  const CaseResult result =
      RunCase(*target->property, c, target->opened.contract, *target->opened.session);
  const std::string printed = target->opened.session->TakeOutput();
  Print(Printable(VerdictText(*target, result)));
  const auto derived =
      DerivedAtFault(*target->property, c, target->opened.contract, result.verdict);
  if (derived) Print(Printable(DerivedCaseText(*derived)));
  const Case& at_fault = derived ? *derived : c;
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
