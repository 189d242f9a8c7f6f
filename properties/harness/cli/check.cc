// attest check: every applicable property on each kernel.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/cli/look_at_findings.h"
#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/cli/passes.h"
#include "properties/harness/cli/report_sink.h"
#include "properties/harness/cli/run_arguments.h"
#include "properties/harness/report/contract_notes.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/progress.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/report/waivers.h"
#include "properties/harness/runner/run_case.h"
#include "properties/harness/runner/run_property.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

// What the user wrote.
struct CheckArguments {
  std::vector<std::string> kernels;
  std::vector<std::string> optional_kernels;
  RunArguments run;
  int64_t max_findings = -1;  // -1 = all
  OpenKernelOptions open;
  std::string waivers;
};

// What it means.
struct CheckPlan {
  AskedRun asked;
  KernelPlan kernel;
  OpenKernelOptions open;
};

tl::expected<CheckPlan, std::string> Understand(const CheckArguments& arguments) {
  if (const auto fine = CheckOpenOptions(arguments.open); !fine)
    return tl::unexpected(fine.error());
  CheckPlan plan;
  auto asked = Understand(arguments.run);
  if (!asked) return tl::unexpected(asked.error());
  plan.asked = std::move(*asked);
  const auto properties = SelectProperties(arguments.run.properties);
  if (!properties) return tl::unexpected(properties.error());
  if (!arguments.waivers.empty()) {
    auto waivers = ReadWaivers(arguments.waivers);
    if (!waivers) return tl::unexpected(waivers.error());
    plan.kernel.waivers = std::move(*waivers);
  }
  plan.kernel.properties = *properties;
  plan.kernel.run = plan.asked.run;
  if (arguments.max_findings >= 0) plan.kernel.max_findings = arguments.max_findings;
  plan.kernel.stop_after = plan.asked.stop_after;
  plan.open = arguments.open;
  return plan;
}

// Saves each finding the moment it is made: a run that is killed later has not lost it.
class SavingObserver : public ProgressLine {
 public:
  SavingObserver(ReportSink& sink, RunInfo info, const std::vector<Waiver>& waivers)
      : sink_(sink), info_(std::move(info)), waivers_(waivers) {}

  void StartKernel(const KernelReport& kernel) {
    SetKernel(kernel.kernel);
    kernel_ = &kernel;
    start_ = last_case_ = Clock::now();
    running_ = nullptr;
    cases_.clear();
    kernel_cases_ = 0;
  }
  void OnCase(const Property& property, int64_t done, int64_t of) override {
    running_ = &property;
    kernel_cases_ += done - std::exchange(cases_[&property], done);
    last_case_ = Clock::now();
    ProgressLine::OnCase(property, done, of);
  }
  void OnFinding(const Finding& finding) override {
    findings_.push_back(sink_.Save(
        finding, info_,
        ReasonToWaive(waivers_, *kernel_, finding.signature, finding.smallest, finding.verdict)));
    ReportedFinding& reported = findings_.back();
    reported.found_by = running_ == nullptr ? "" : running_->id;
    reported.kernel_cases = kernel_cases_;
    reported.kernel_seconds = std::chrono::duration<double>(last_case_ - start_).count();
    sink_.WriteJson(FindingLine(reported));
  }
  std::vector<ReportedFinding> TakeFindings() { return std::exchange(findings_, {}); }

 private:
  ReportSink& sink_;
  const RunInfo info_;
  const std::vector<Waiver>& waivers_;
  const KernelReport* kernel_ = nullptr;  // that runs
  Clock::time_point start_, last_case_;
  const Property* running_ = nullptr;
  std::map<const Property*, int64_t> cases_;  // so far
  int64_t kernel_cases_ = 0;                  // the sum of them
  std::vector<ReportedFinding> findings_;
};

class CheckRun {
 public:
  CheckRun(CheckPlan plan, RunInfo info, std::vector<KernelToRun> kernels, ReportSink& sink)
      : plan_(std::move(plan)), sink_(sink), observer_(sink, info, plan_.kernel.waivers) {
    report_.info = std::move(info);
    for (KernelToRun& kernel : kernels) {
      opened_.push_back(std::move(kernel.opened));
      report_.kernels.push_back(std::move(kernel.report));
    }
  }

  int Run() {
    sink_.WriteJson(RunLine(report_));
    // The parts are passes of properties, over all kernels.
    shares_ = TimeShares(plan_.asked.duration,
                         static_cast<int64_t>(plan_.kernel.properties.size()) *
                             std::ssize(PassesOf(plan_.kernel.run.plan)) *
                             static_cast<int64_t>(std::count_if(
                                 opened_.begin(), opened_.end(),
                                 [](const auto& kernel) { return kernel.session != nullptr; })));
    for (size_t i = 0; i < opened_.size(); ++i) {
      if (opened_[i].session) RunKernel(opened_[i], report_.kernels[i]);
    }
    observer_.Clear();
    return EndRun(report_, sink_);
  }

 private:
  void RunKernel(OpenedKernel& opened, KernelReport& kernel) {
    const auto start = Clock::now();
    observer_.StartKernel(kernel);
    kernel.results =
        RunInPasses(plan_.kernel, opened, kernel, observer_, [&] { return shares_.Next(); });
    kernel.findings = observer_.TakeFindings();
    FoldFindings(kernel);
    AttributeFindings(kernel);
    ApplyWaivers(plan_.kernel.waivers, kernel);
    kernel.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    kernel.stats = opened.session->stats();
    for (std::string& note : ContractNotes(kernel)) kernel.notes.push_back(std::move(note));
    LookAtFindings(opened, kernel);
    for (const PropertyResult& result : kernel.results) sink_.WriteJson(ResultLine(result));
    opened.session.reset();  // its worker need not wait for the others
  }

  CheckPlan plan_;
  ReportSink& sink_;
  SavingObserver observer_;
  RunReport report_;
  std::vector<OpenedKernel> opened_;  // beside report_.kernels; no session where skipped
  TimeShares shares_{std::nullopt, 0};
};

RunInfo InfoOf(const CommandLine& line, const CheckArguments& arguments, const CheckPlan& plan) {
  RunInfo info = InfoOf(line, arguments.run, plan.asked);
  info.held_to = plan.open.contract;
  info.strict = plan.open.strict;
  info.open_options = OpenOptionsText(plan.open);
  return info;
}

// The files that the run reads.
std::vector<std::string> Inputs(const CheckArguments& arguments) {
  std::vector<std::string> files = FilesOfKernels(arguments.kernels, arguments.optional_kernels);
  if (!arguments.waivers.empty()) files.push_back(arguments.waivers);
  return files;
}

int Check(const CheckArguments& arguments, const CommandLine& line) {
  auto plan = Understand(arguments);
  if (!plan) return Complain(kExitUsage, plan.error());
  if (arguments.kernels.empty() && arguments.optional_kernels.empty()) {
    return Complain(kExitUsage, "check: no kernel: name one, 'attest list kernels' shows them");
  }
  if (const auto fine = CheckRunPaths(Inputs(arguments), arguments.run.paths); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  auto kernels = OpenKernels(arguments.kernels, arguments.optional_kernels, plan->open);
  if (!kernels) return Complain(kernels.error().status, kernels.error().text);
  auto sink = BeginReport(arguments.run.paths);
  if (!sink) return Complain(kExitUsage, sink.error());
  const RunInfo info = InfoOf(line, arguments, *plan);
  return CheckRun(std::move(*plan), info, std::move(*kernels), **sink).Run();
}

}  // namespace

void AddCheck(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand("check", "Run all applicable properties on kernels");
  command->add_option("KERNEL", arguments->kernels, "Kernels, run one after the other");
  command
      ->add_option("--optional", arguments->optional_kernels,
                   "A kernel that is skipped where it is not installed, and does not decide the "
                   "exit status; repeatable")
      ->type_name("KERNEL")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  AddRunArguments(*command, arguments->run);
  AddOpenOptions(*command, arguments->open);
  command
      ->add_option("--max-findings", arguments->max_findings,
                   "Shrink and report N findings a kernel; of the other properties say only which "
                   "fail. Quicker where much is wrong")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1000000}));
  command
      ->add_option("--waivers", arguments->waivers,
                   "Findings that do not fail the run: a file as corpus/waivers.toml")
      ->type_name("FILE");
  command->callback([arguments, command, &line] {
    arguments->run.paths.is_folder_asked = command->count("--report") > 0;
    line.run = [arguments, &line] { return Check(*arguments, line); };
  });
}

}  // namespace attest
