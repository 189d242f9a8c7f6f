// attest check: every applicable property on each kernel.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/cli/look_at_findings.h"
#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/cli/passes.h"
#include "properties/harness/cli/report_sink.h"
#include "properties/harness/report/feature_note.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/junit.h"
#include "properties/harness/report/progress.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/report/terminal.h"
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
  std::string plan = "quick";
  std::vector<std::string> properties;
  std::string seed = "1";
  std::string duration;
  std::string shard = "0/1";
  ReportPaths paths{"", "", "attest-report", false};
  int64_t deadline_ms = 2000;
  int threads = 1;
  int confirmations = 3;
  int64_t max_findings = -1;  // -1 = all
  int64_t stop_after = 0;     // findings; 0 = never
  std::string contract;
  bool strict = false;
  std::string waivers;
};

// What it means.
struct CheckPlan {
  KernelPlan kernel;
  std::optional<std::chrono::seconds> duration;
  OpenKernelOptions open;
};

tl::expected<CheckPlan, std::string> Understand(const CheckArguments& arguments) {
  if (arguments.strict && arguments.contract.empty()) {
    return tl::unexpected(std::string("--strict: of what: name a contract with --contract"));
  }
  CheckPlan plan;
  const auto properties = SelectProperties(arguments.properties);
  if (!properties) return tl::unexpected(properties.error());
  const auto named = ParsePlan(arguments.plan);
  if (!named) return tl::unexpected(named.error());
  const auto seed = ParseSeed(arguments.seed);
  if (!seed) return tl::unexpected(seed.error());
  const auto shard = ParseShard(arguments.shard);
  if (!shard) return tl::unexpected(shard.error());
  if (!arguments.duration.empty()) {
    const auto duration = ParseDuration(arguments.duration);
    if (!duration) return tl::unexpected(duration.error());
    plan.duration = *duration;
  }
  if (!arguments.waivers.empty()) {
    auto waivers = ReadWaivers(arguments.waivers);
    if (!waivers) return tl::unexpected(waivers.error());
    plan.kernel.waivers = std::move(*waivers);
  }
  plan.kernel.properties = *properties;
  plan.kernel.run.plan = *named;
  plan.kernel.run.seed = *seed;
  std::tie(plan.kernel.run.shard_index, plan.kernel.run.shard_count) = *shard;
  plan.kernel.run.confirmations = arguments.confirmations;
  if (arguments.max_findings >= 0) plan.kernel.max_findings = arguments.max_findings;
  if (arguments.stop_after > 0) plan.kernel.stop_after = arguments.stop_after;
  plan.kernel.run.stop = &Interrupted();
  plan.open.session.deadline = std::chrono::milliseconds(arguments.deadline_ms);
  plan.open.session.threads = arguments.threads;
  plan.open.contract = arguments.contract;
  plan.open.strict = arguments.strict;
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
    sink_.BeginFolder();
    sink_.WriteJson(RunLine(report_));
    left_ =
        static_cast<int64_t>(plan_.kernel.properties.size()) *
        std::ssize(PassesOf(plan_.kernel.run.plan)) *
        static_cast<int64_t>(std::count_if(opened_.begin(), opened_.end(), [](const auto& kernel) {
          return kernel.session != nullptr;
        }));
    if (plan_.duration) end_ = Clock::now() + *plan_.duration;
    for (size_t i = 0; i < opened_.size(); ++i) {
      if (opened_[i].session) RunKernel(opened_[i], report_.kernels[i]);
    }
    observer_.Clear();
    const int status = ExitCode(report_);
    Print(TerminalReport(report_));
    if (sink_.WantsPages(report_)) sink_.WritePages(report_);
    const auto written =
        sink_.Finish(SummaryLine(report_, status, sink_.lines()), JUnitText(report_));
    return written ? status : Complain(kExitHarness, written.error());
  }

 private:
  void RunKernel(OpenedKernel& opened, KernelReport& kernel) {
    const auto start = Clock::now();
    observer_.StartKernel(kernel);
    kernel.results =
        RunInPasses(plan_.kernel, opened, kernel, observer_, [&] { return ShareOfTime(); });
    kernel.findings = observer_.TakeFindings();
    FoldFindings(kernel);
    AttributeFindings(kernel);
    ApplyWaivers(plan_.kernel.waivers, kernel);
    kernel.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    kernel.stats = opened.session->stats();
    if (auto note = FeatureNote(kernel); !note.empty()) kernel.notes.push_back(std::move(note));
    LookAtFindings(opened, kernel);
    for (const PropertyResult& result : kernel.results) sink_.WriteJson(ResultLine(result));
    opened.session.reset();  // its worker need not wait for the others
  }

  // Of what is left of --for, each part still to come gets the same; what one does not use goes to
  // those behind it.
  std::optional<Clock::time_point> ShareOfTime() {
    const int64_t left = left_--;
    if (!end_) return std::nullopt;
    const auto now = Clock::now();
    return now >= *end_ ? now : now + (*end_ - now) / left;
  }

  CheckPlan plan_;
  ReportSink& sink_;
  SavingObserver observer_;
  RunReport report_;
  std::vector<OpenedKernel> opened_;  // beside report_.kernels; no session where skipped
  std::optional<Clock::time_point> end_;
  int64_t left_ = 0;  // parts not yet started: passes of properties, over all kernels
};

RunInfo InfoOf(const CommandLine& line, const CheckArguments& arguments, const CheckPlan& plan) {
  RunInfo info;
  info.program = line.program;
  info.command = line.text;
  info.plan = plan.kernel.run.plan.name;
  info.cases_per_property = plan.kernel.run.plan.cases_per_property;
  info.seed = plan.kernel.run.seed;
  info.shard_index = plan.kernel.run.shard_index;
  info.shard_count = plan.kernel.run.shard_count;
  info.held_to = plan.open.contract;
  info.strict = plan.open.strict;
  info.properties = arguments.properties;
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
  if (const auto fine = CheckReportPaths(Inputs(arguments), arguments.paths); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  if (const auto fine = CheckNoNight(arguments.paths.folder); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  auto kernels = OpenKernels(arguments.kernels, arguments.optional_kernels, plan->open);
  if (!kernels) return Complain(kernels.error().status, kernels.error().text);
  auto sink = ReportSink::Open(arguments.paths);
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
  command
      ->add_option("--plan", arguments->plan, "Cases per property: smoke, quick, ci or overnight")
      ->capture_default_str();
  command
      ->add_option("--property", arguments->properties,
                   "Only properties whose id matches the pattern; repeatable")
      ->type_name("GLOB")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--seed", arguments->seed, "Same seed, same cases")->capture_default_str();
  command
      ->add_option("--for", arguments->duration,
                   "Stop after 30s, 5m or 8h; what is cut short is INCONCLUSIVE")
      ->type_name("TIME")
      ->check([](const std::string& text) {
        return text.empty() ? "no time: write a whole number and s, m, h or d" : "";
      });
  command->add_option("--shard", arguments->shard, "Run part i of n, 0 <= i < n")
      ->type_name("i/n")
      ->capture_default_str();
  AddReportPaths(*command, arguments->paths);
  command->add_option("--deadline", arguments->deadline_ms, "Milliseconds one kernel call may take")
      ->check(CLI::Range(int64_t{1}, int64_t{3600000}))
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "Threads that a kernel is given")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--confirmations", arguments->confirmations,
                   "Reruns of each finding; where not all fail, at least 20")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--max-findings", arguments->max_findings,
                   "Shrink and report N findings a kernel; of the other properties say only which "
                   "fail. Quicker where much is wrong")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1000000}));
  command
      ->add_option("--stop-after", arguments->stop_after,
                   "End a kernel's run with its Nth finding; properties not run are INCONCLUSIVE")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  command
      ->add_option("--contract", arguments->contract,
                   "Hold the kernel to this published contract, for what the kernel offers")
      ->type_name("NAME");
  command->add_flag("--strict", arguments->strict,
                    "With --contract: the kernel must offer all that the contract does");
  command
      ->add_option("--waivers", arguments->waivers,
                   "Findings that do not fail the run: a file as corpus/waivers.toml")
      ->type_name("FILE");
  command->callback([arguments, command, &line] {
    arguments->paths.is_folder_asked = command->count("--report") > 0;
    line.run = [arguments, &line] { return Check(*arguments, line); };
  });
}

}  // namespace attest
