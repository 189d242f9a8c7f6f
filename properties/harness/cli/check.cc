// attest check: every applicable property on each kernel.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
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
#include "properties/harness/cli/report_sink.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/junit.h"
#include "properties/harness/report/progress.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/report/waivers.h"
#include "properties/harness/runner/patience.h"
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
  std::vector<const Property*> properties;
  RunOptions run;
  std::optional<std::chrono::seconds> duration;
  std::optional<int64_t> max_findings, stop_after;  // a kernel
  OpenKernelOptions open;
  std::vector<Waiver> waivers;
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
    plan.waivers = std::move(*waivers);
  }
  plan.properties = *properties;
  plan.run.plan = *named;
  plan.run.seed = *seed;
  std::tie(plan.run.shard_index, plan.run.shard_count) = *shard;
  plan.run.confirmations = arguments.confirmations;
  if (arguments.max_findings >= 0) plan.max_findings = arguments.max_findings;
  if (arguments.stop_after > 0) plan.stop_after = arguments.stop_after;
  plan.run.stop = &Interrupted();
  plan.open.session.deadline = std::chrono::milliseconds(arguments.deadline_ms);
  plan.open.session.threads = arguments.threads;
  plan.open.contract = arguments.contract;
  plan.open.strict = arguments.strict;
  return plan;
}

// Saves each finding the moment it is made: a run that is killed later has not lost it.
class SavingObserver : public ProgressLine {
 public:
  SavingObserver(ReportSink& sink, std::string program, const std::vector<Waiver>& waivers)
      : sink_(sink), program_(std::move(program)), waivers_(waivers) {}

  void StartKernel(const KernelReport& kernel) {
    SetKernel(kernel.kernel);
    kernel_ = &kernel;
    start_ = last_case_ = Clock::now();
    running_ = nullptr;
    cases_before_ = cases_ = 0;
  }
  void OnCase(const Property& property, int64_t done, int64_t of) override {
    if (running_ != &property) cases_before_ += std::exchange(cases_, 0);
    running_ = &property;
    cases_ = done;
    last_case_ = Clock::now();
    ProgressLine::OnCase(property, done, of);
  }
  void OnFinding(const Finding& finding) override {
    findings_.push_back(sink_.Save(
        finding, program_,
        ReasonToWaive(waivers_, *kernel_, finding.signature, finding.smallest, finding.verdict)));
    ReportedFinding& reported = findings_.back();
    reported.found_by = running_ == nullptr ? "" : running_->id;
    reported.kernel_cases = cases_before_ + cases_;
    reported.kernel_seconds = std::chrono::duration<double>(last_case_ - start_).count();
    sink_.WriteJson(FindingLine(reported));
  }
  std::vector<ReportedFinding> TakeFindings() { return std::exchange(findings_, {}); }

 private:
  ReportSink& sink_;
  std::string program_;
  const std::vector<Waiver>& waivers_;
  const KernelReport* kernel_ = nullptr;  // that runs
  Clock::time_point start_, last_case_;
  const Property* running_ = nullptr;
  int64_t cases_before_ = 0, cases_ = 0;  // of the properties before, and of the one that runs
  std::vector<ReportedFinding> findings_;
};

class CheckRun {
 public:
  CheckRun(CheckPlan plan, RunInfo info, ReportSink& sink)
      : plan_(std::move(plan)), sink_(sink), observer_(sink, info.program, plan_.waivers) {
    report_.info = std::move(info);
  }

  // Opens every kernel before any is run, so that a typing mistake in the last costs no waiting.
  // Optional kernels that do not open are noted as skipped.
  tl::expected<void, OpenError> Open(const CheckArguments& arguments) {
    std::set<std::string> seen;
    for (const bool optional : {false, true}) {
      for (const auto& text : optional ? arguments.optional_kernels : arguments.kernels) {
        if (!seen.insert(text).second) continue;
        if (auto done = OpenOne(text, optional); !done) return done;
      }
    }
    return {};
  }

  int Run() {
    sink_.WriteJson(RunLine(report_));
    left_ =
        static_cast<int64_t>(plan_.properties.size()) *
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
    const auto written = sink_.Finish(SummaryLine(report_, status), JUnitText(report_));
    return written ? status : Complain(kExitHarness, written.error());
  }

 private:
  tl::expected<void, OpenError> OpenOne(const std::string& text, bool optional) {
    auto opened = OpenKernel(text, plan_.open);
    if (!opened && (!optional || opened.error().status == kExitHarness)) {
      return tl::unexpected(opened.error());
    }
    KernelReport kernel;
    kernel.kernel = text;
    kernel.optional = optional;
    if (opened) {
      kernel.identity = opened->session->identity();
      kernel.contract = opened->contract;
      opened_.push_back(std::move(*opened));
    } else {
      kernel.skipped = opened.error().text;
      opened_.emplace_back();
    }
    report_.kernels.push_back(std::move(kernel));
    return {};
  }

  void RunKernel(OpenedKernel& opened, KernelReport& kernel) {
    const auto start = Clock::now();
    observer_.StartKernel(kernel);
    RunOptions options = plan_.run;
    if (!plan_.waivers.empty()) {
      options.is_waived = [&](const Failure& failure) {
        return !ReasonToWaive(plan_.waivers, kernel, failure.signature, failure.c, failure.verdict)
                    .empty();
      };
    }
    int64_t failed = 0;  // findings
    Patience patience;
    for (const Property* property : plan_.properties) {
      const std::string why = plan_.stop_after && failed >= *plan_.stop_after
                                  ? fmt::format("not run: the kernel has {} findings", failed)
                                  : patience.WhyNotRun();
      if (!why.empty()) {
        kernel.results.push_back(NotRun(kernel.kernel, *property, why));
        --left_;
        continue;
      }
      LimitFindings(failed, options);
      options.stop_at = ShareOfTime();
      PropertyResult result =
          RunProperty(*property, opened.contract, *opened.session, options, observer_);
      for (const Finding& finding : result.findings) {
        const bool waived = !ReasonToWaive(plan_.waivers, kernel, finding.signature,
                                           finding.smallest, finding.verdict)
                                 .empty();
        (waived ? options.known_waived : options.known).insert(finding.signature);
        failed += finding.verdict.kind == VerdictKind::kFail && !waived ? 1 : 0;
      }
      patience.Note(result);
      kernel.results.push_back(std::move(result));
    }
    kernel.findings = observer_.TakeFindings();
    FoldFindings(kernel);
    AttributeFindings(kernel);
    ApplyWaivers(plan_.waivers, kernel);
    kernel.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    kernel.stats = opened.session->stats();
    LookAtFindings(opened, kernel);
    for (const PropertyResult& result : kernel.results) sink_.WriteJson(ResultLine(result));
    opened.session.reset();  // its worker need not wait for the others
  }

  // For the next property of a kernel that has so many findings; they are fewer than stop_after.
  void LimitFindings(int64_t findings, RunOptions& options) const {
    // Where there are to be few they come from many properties: a fault in many lights is told more surely.
    int64_t limit = plan_.max_findings || plan_.stop_after ? 1 : plan_.run.max_findings;
    if (plan_.max_findings)
      limit = std::min(limit, std::max<int64_t>(*plan_.max_findings - findings, 0));
    if (plan_.stop_after) limit = std::min(limit, *plan_.stop_after - findings);
    options.max_findings = static_cast<int>(limit);
    options.ends_when_full = plan_.stop_after && findings + limit >= *plan_.stop_after;
  }

  static PropertyResult NotRun(const std::string& kernel, const Property& property,
                               const std::string& why) {
    PropertyResult result;
    result.kernel = kernel;
    result.property = property.id;
    result.verdict = VerdictKind::kInconclusive;
    result.reason = why;
    return result;
  }

  // Of what is left of --for, each property still to come gets the same; what one does not use goes
  // to those behind it.
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
  int64_t left_ = 0;  // properties not yet started, over all kernels
};

RunInfo InfoOf(const CommandLine& line, const CheckPlan& plan) {
  RunInfo info;
  info.program = line.program;
  info.command = line.text;
  info.plan = plan.run.plan.name;
  info.cases_per_property = plan.run.plan.cases_per_property;
  info.seed = plan.run.seed;
  info.shard_index = plan.run.shard_index;
  info.shard_count = plan.run.shard_count;
  info.held_to = plan.open.contract;
  info.strict = plan.open.strict;
  return info;
}

int Check(const CheckArguments& arguments, const CommandLine& line) {
  auto plan = Understand(arguments);
  if (!plan) return Complain(kExitUsage, plan.error());
  if (arguments.kernels.empty() && arguments.optional_kernels.empty()) {
    return Complain(kExitUsage, "check: no kernel: name one, 'attest list kernels' shows them");
  }
  auto sink = ReportSink::Open(arguments.paths);
  if (!sink) return Complain(kExitUsage, sink.error());
  const RunInfo info = InfoOf(line, *plan);
  CheckRun run(std::move(*plan), info, **sink);
  if (const auto opened = run.Open(arguments); !opened) {
    (*sink)->Abandon();
    return Complain(opened.error().status, opened.error().text);
  }
  return run.Run();
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
