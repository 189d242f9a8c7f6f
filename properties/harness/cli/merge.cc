// attest merge: the JSON lines of shards, or of nights, as one report with one exit status.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/report_sink.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/json_read.h"
#include "properties/harness/report/junit.h"
#include "properties/harness/report/merge_runs.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/report/waivers.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

struct MergeArguments {
  std::vector<std::string> files;
  ReportPaths paths{"", "", "attest-report", false};
  std::string waivers;
};

// What the lines do not carry: the contract that the run held the kernel to, and derived cases.
tl::expected<void, std::string> Complete(const RunInfo& info, KernelReport& kernel) {
  if (!info.held_to.empty() && kernel.skipped.empty()) {
    auto contract = ContractNamed(info.held_to, info.strict, kernel.contract);
    if (!contract) return tl::unexpected(contract.error());
    kernel.contract = std::move(*contract);
  }
  for (ReportedFinding& reported : kernel.findings) {
    Finding& finding = reported.finding;
    const Property* property = FindProperty(finding.signature.property);
    if (property == nullptr) continue;
    finding.derived = DerivedAtFault(*property, finding.smallest, kernel.contract, finding.verdict);
  }
  return {};
}

// The cases go into the folder of this report, which need not lie where those of the parts do.
void SaveCases(RunReport& report, ReportSink& sink) {
  for (KernelReport& kernel : report.kernels) {
    for (ReportedFinding& reported : kernel.findings) {
      const ReportedFinding saved = kernel.is_model
                                        ? sink.SaveModel(reported, report.info)
                                        : sink.Save(reported.finding, report.info, reported.waived);
      reported.file = saved.file;
      reported.command = saved.command;
    }
  }
}

int Write(RunReport& report, const MergeArguments& arguments) {
  auto sink = ReportSink::Open(arguments.paths);
  if (!sink) return Complain(kExitUsage, sink.error());
  if (const auto begun = (*sink)->BeginFolder(); !begun) {
    (*sink)->Abandon();
    return Complain(kExitUsage, begun.error());
  }
  const int status = ExitCode(report);
  SaveCases(report, **sink);
  (*sink)->WriteJson(RunLine(report));
  for (const KernelReport& kernel : report.kernels) {
    for (const ReportedFinding& reported : kernel.findings) {
      (*sink)->WriteJson(FindingLine(reported));
    }
    for (const PropertyResult& result : kernel.results) (*sink)->WriteJson(ResultLine(result));
  }
  Print(TerminalReport(report));
  if ((*sink)->WantsPages(report)) (*sink)->WritePages(report);
  const auto written =
      (*sink)->Finish(SummaryLine(report, status, (*sink)->lines()), JUnitText(report));
  return written ? status : Complain(kExitHarness, written.error());
}

int Merge(const MergeArguments& arguments, const CommandLine& line) {
  std::vector<std::string> reads = arguments.files;
  if (!arguments.waivers.empty()) reads.push_back(arguments.waivers);
  if (const auto fine = CheckReportPaths(reads, arguments.paths); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  if (const auto fine = CheckNoNight(arguments.paths.folder); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  std::vector<ReadRun> runs;
  for (const std::string& file : arguments.files) {
    auto run = ReadJsonLinesOf(file);
    if (!run) return Complain(kExitUsage, run.error());
    runs.push_back(std::move(*run));
  }
  std::vector<Waiver> waivers;
  if (!arguments.waivers.empty()) {
    auto read = ReadWaivers(arguments.waivers);
    if (!read) return Complain(kExitUsage, read.error());
    waivers = std::move(*read);
  }
  auto merged = MergeRuns(std::move(runs));
  if (!merged) return Complain(kExitUsage, merged.error());
  merged->report.info.program = line.program;
  merged->report.info.command = line.text;
  for (KernelReport& kernel : merged->report.kernels) {
    if (const auto done = Complete(merged->report.info, kernel); !done) {
      return Complain(kExitUsage, done.error());
    }
    ApplyWaivers(waivers, kernel);
    kernel.notes.insert(kernel.notes.end(), merged->amiss.begin(), merged->amiss.end());
  }
  for (const std::string& why : merged->amiss) Complain(kExitInconclusive, why);
  return Write(merged->report, arguments);
}

}  // namespace

void AddMerge(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<MergeArguments>();
  CLI::App* command = app.add_subcommand(
      "merge", "Join the JSON lines of a run's shards, or of nights, into one report");
  command->add_option("FILE", arguments->files, "What check --shard i/n --json FILE wrote")
      ->required();
  AddReportPaths(*command, arguments->paths);
  command
      ->add_option("--waivers", arguments->waivers,
                   "Findings that do not fail the run: a file as corpus/waivers.toml")
      ->type_name("FILE");
  command->callback([arguments, command, &line] {
    arguments->paths.is_folder_asked = command->count("--report") > 0;
    line.run = [arguments, &line] { return Merge(*arguments, line); };
  });
}

}  // namespace attest
