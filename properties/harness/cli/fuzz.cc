// attest fuzz: a night's search on each kernel, that goes on where a night before was cut off.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "properties/harness/case/random.h"
#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/cli/look_at_findings.h"
#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/cli/report_sink.h"
#include "properties/harness/night/night.h"
#include "properties/harness/report/contract_notes.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/junit.h"
#include "properties/harness/report/merge_runs.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/report/waivers.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// --targets none: the property search alone.
constexpr const char* kNoTargets = "none";

struct FuzzArguments {
  std::vector<std::string> kernels, optional_kernels;
  std::string duration = "8h";
  int jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  ReportPaths paths{"", "", "attest-night", true};
  std::string corpus;  // empty = in the report's folder
  std::string seed = "1";
  std::string waivers;
  std::vector<std::string> properties;
  std::vector<std::string> targets;  // empty = the usual folders
  std::string seeds;                 // empty = the repository's
};

struct FuzzPlan {
  std::chrono::seconds duration{0};
  uint64_t seed = 1;
  std::vector<const Property*> properties;
  std::vector<Waiver> waivers;
  std::vector<FuzzBuild> builds;
};

tl::expected<FuzzPlan, std::string> Understand(const FuzzArguments& arguments) {
  FuzzPlan plan;
  const auto duration = ParseDuration(arguments.duration);
  if (!duration) return tl::unexpected(duration.error());
  const auto seed = ParseSeed(arguments.seed);
  if (!seed) return tl::unexpected(seed.error());
  const auto properties = SelectProperties(arguments.properties);
  if (!properties) return tl::unexpected(properties.error());
  if (!arguments.waivers.empty()) {
    auto waivers = ReadWaivers(arguments.waivers);
    if (!waivers) return tl::unexpected(waivers.error());
    plan.waivers = std::move(*waivers);
  }
  plan.duration = *duration;
  plan.seed = *seed;
  plan.properties = *properties;
  if (arguments.targets == std::vector<std::string>{kNoTargets}) return plan;
  plan.builds = FindFuzzBuilds(arguments.targets.empty() ? UsualFuzzFolders() : arguments.targets);
  if (!arguments.targets.empty() && plan.builds.empty()) {
    return tl::unexpected(fmt::format("--targets {}: no fuzz target made with libFuzzer is there",
                                      fmt::join(arguments.targets, " ")));
  }
  return plan;
}

// Where something of this kernel lies: its name made safe, and a hash that keeps apart what that makes alike.
std::string FolderName(const std::string& kernel) {
  std::string name = kernel.substr(kernel.size() - std::min<size_t>(kernel.size(), 60));
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_'; },
      '-');
  uint64_t hash = 0;
  for (const char c : kernel) hash = MixIn(hash, static_cast<unsigned char>(c));
  return fmt::format("{}-{:08x}", name, hash & 0xffffffffu);
}

// One line at the foot of a terminal.
class NightLine {
 public:
  static void Show(const std::string& kernel, const NightProgress& p) {
    const int64_t left = p.left.count();
    const std::string line = fmt::format(
        "\r{}  {}  {}:{:02}:{:02} left  {:.0f} executions/s  coverage {}  {} bins  worst {:.3g}  "
        "{} "
        "findings\x1b[K",
        kernel, p.phase, left / 3600, left / 60 % 60, left % 60, p.executions_per_second,
        p.figures.coverage, p.figures.bins,
        std::max(p.figures.worst_ratio, p.figures.worst_lse_ratio), p.findings);
    std::fputs(line.c_str(), stderr);
  }
  void Clear() const {
    if (is_terminal_) std::fputs("\r\x1b[K", stderr);
  }
  bool is_terminal() const { return is_terminal_; }

 private:
  bool is_terminal_ = isatty(STDERR_FILENO) != 0;
};

class FuzzRuns {
 public:
  FuzzRuns(const FuzzArguments& arguments, FuzzPlan plan, RunInfo info, ReportSink& sink)
      : arguments_(arguments), plan_(std::move(plan)), sink_(sink) {
    report_.info = std::move(info);
  }

  // Each kernel's memory of nights before.
  tl::expected<void, std::string> Open(std::vector<KernelToRun> kernels) {
    for (KernelToRun& kernel : kernels) {
      KernelRun& run = runs_.emplace_back();
      run.opened = std::move(kernel.opened);
      if (run.opened.session) {
        auto night = Night::Open(kernel.report.kernel, kernel.report.contract, *run.opened.session,
                                 OptionsFor(kernel.report));
        if (!night) return tl::unexpected(night.error());
        run.night = std::move(*night);
      }
      report_.kernels.push_back(std::move(kernel.report));
    }
    return {};
  }

  int Run() {
    sink_.WriteJson(RunLine(report_));
    const auto end = Clock::now() + plan_.duration;
    auto left = std::ranges::count_if(runs_, [](const auto& run) { return run.night != nullptr; });
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (!runs_[i].night) continue;
      const auto now = Clock::now();
      RunOne(runs_[i], now + std::max<Clock::duration>((end - now) / left--, {}),
             report_.kernels[i]);
    }
    line_.Clear();
    return Close();
  }

 private:
  struct KernelRun {
    OpenedKernel opened;
    std::unique_ptr<Night> night;  // none where the kernel is skipped
  };

  NightOptions OptionsFor(const KernelReport& kernel) {
    const std::string name = FolderName(kernel.kernel);
    const std::string& report = arguments_.paths.folder;
    NightOptions options;
    options.builds = plan_.builds;
    options.folder = (fs::path(report) / "night" / name).string();
    options.corpus =
        ((arguments_.corpus.empty() ? fs::path(report) / "corpus" : fs::path(arguments_.corpus)) /
         name)
            .string();
    options.seeds = arguments_.seeds.empty() ? UsualSeedFolder() : arguments_.seeds;
    options.jobs = arguments_.jobs;
    options.seed = plan_.seed;
    options.properties = plan_.properties;
    options.desk.run.stop = &Interrupted();
    options.desk.waive = [this, kernel](const Signature& signature, const Case& c,
                                        const Verdict& verdict) {
      return ReasonToWaive(plan_.waivers, kernel, signature, c, verdict);
    };
    options.desk.save = [this](const Finding& finding, const std::string& waived) {
      ReportedFinding reported = sink_.Save(finding, report_.info, waived);
      reported.waived = waived;
      sink_.WriteJson(FindingLine(reported));
      return reported;
    };
    if (!line_.is_terminal()) return options;
    options.progress = [name = kernel.kernel](const NightProgress& p) { NightLine::Show(name, p); };
    return options;
  }

  void RunOne(KernelRun& run, Clock::time_point end, KernelReport& kernel) {
    const auto start = Clock::now();
    run.night->CheckAgain();
    for (const ReportedFinding& before : run.night->findings())
      sink_.WriteJson(FindingLine(before));
    run.night->Run(end);
    kernel.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    run.night->Report(kernel);
    if (plan_.builds.empty()) {
      kernel.notes.push_back(
          "no fuzz target made with libFuzzer was found: the property search alone");
    }
    ApplyWaivers(plan_.waivers, kernel);
    for (std::string& note : ContractNotes(kernel)) kernel.notes.push_back(std::move(note));
    LookAtFindings(run.opened, kernel);
    for (const PropertyResult& result : kernel.results) sink_.WriteJson(ResultLine(result));
    WriteFigures(kernel.kernel, *run.night);
    if (!run.night->error().empty() && error_.empty()) error_ = run.night->error();
    if (!kernel.optional && !run.night->WhyInconclusive().empty()) is_open_ = true;
    run.night.reset();
    run.opened.session.reset();
  }

  void WriteFigures(const std::string& kernel, const Night& night) {
    nlohmann::ordered_json line = {{"type", "fuzz"}, {"kernel", kernel}};
    line.update(nlohmann::ordered_json::parse(ToJson(night.figures())));
    line["corpus"] = night.corpus_size();
    sink_.WriteJson(line.dump() + "\n");
  }

  int Close() {
    int status = ExitCode(report_);
    if (status == kExitPass && is_open_) status = kExitInconclusive;
    Print(TerminalReport(report_));
    sink_.WritePages(report_);
    const auto written =
        sink_.Finish(SummaryLine(report_, status, sink_.lines()), JUnitText(report_));
    if (!written) return Complain(kExitHarness, written.error());
    return error_.empty() ? status : Complain(kExitHarness, error_);
  }

  const FuzzArguments& arguments_;
  const FuzzPlan plan_;
  ReportSink& sink_;
  RunReport report_;
  std::vector<KernelRun> runs_;  // beside report_.kernels
  NightLine line_;
  bool is_open_ = false;
  std::string error_;
};

RunInfo InfoOf(const CommandLine& line, const FuzzPlan& plan) {
  RunInfo info;
  info.program = line.program;
  info.command = line.text;
  info.plan = kNightPlan;
  info.seed = plan.seed;
  return info;
}

// Nothing is made yet.
tl::expected<void, std::string> CheckPaths(const FuzzArguments& arguments) {
  std::error_code ignored;
  if (!arguments.seeds.empty() && !fs::is_directory(arguments.seeds, ignored)) {
    return tl::unexpected(
        fmt::format("--seeds {}: is no folder: name one that holds a folder of first "
                    "inputs for each target, or leave it out",
                    arguments.seeds));
  }
  std::vector<std::string> reads = FilesOfKernels(arguments.kernels, arguments.optional_kernels);
  reads.insert(reads.end(), arguments.targets.begin(), arguments.targets.end());
  for (const std::string& read : {arguments.seeds, arguments.waivers, arguments.corpus}) {
    if (!read.empty()) reads.push_back(read);
  }
  if (auto fine = CheckReportPaths(reads, arguments.paths); !fine || arguments.corpus.empty()) {
    return fine;
  }
  return CheckOutputs({}, {{"--corpus", arguments.corpus, /*is_folder=*/true}});
}

// What is not asked to lie elsewhere lies in the report's folder.
tl::expected<ReportPaths, std::string> MakeFolder(ReportPaths paths) {
  std::error_code error;
  fs::create_directories(paths.folder, error);
  if (error) {
    return tl::unexpected(
        fmt::format("--report {}: cannot make the folder: name another", paths.folder));
  }
  if (paths.json.empty()) paths.json = (fs::path(paths.folder) / "run.jsonl").string();
  if (paths.junit.empty()) paths.junit = (fs::path(paths.folder) / "junit.xml").string();
  return paths;
}

// Case files that a run was killed over; what they were to hold is confirmed and written again.
void RemoveHalfWritten(const std::string& folder) {
  std::error_code error, ignored;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".toml.partial")) fs::remove(path, ignored);
  }
}

int Fuzz(const FuzzArguments& arguments, const CommandLine& line) {
  auto plan = Understand(arguments);
  if (!plan) return Complain(kExitUsage, plan.error());
  if (arguments.kernels.empty() && arguments.optional_kernels.empty()) {
    return Complain(kExitUsage, "fuzz: no kernel: name one, 'attest list kernels' shows them");
  }
  if (const auto fine = CheckPaths(arguments); !fine) return Complain(kExitUsage, fine.error());
  auto kernels = OpenKernels(arguments.kernels, arguments.optional_kernels);
  if (!kernels) return Complain(kernels.error().status, kernels.error().text);
  const auto paths = MakeFolder(arguments.paths);
  if (!paths) return Complain(kExitUsage, paths.error());
  auto sink = ReportSink::Open(*paths);
  if (!sink) return Complain(kExitUsage, sink.error());
  if (plan->builds.empty()) {
    Print(
        "no fuzz target made with libFuzzer was found (presets fuzz-fast and fuzz make them): "
        "the property search alone\n");
    std::fflush(stdout);
  }
  const RunInfo info = InfoOf(line, *plan);
  FuzzRuns runs(arguments, std::move(*plan), info, **sink);
  if (const auto opened = runs.Open(std::move(*kernels)); !opened) {
    (*sink)->Abandon();
    return Complain(kExitUsage, opened.error());
  }
  RemoveHalfWritten(paths->folder);
  return runs.Run();
}

void AddFuzzOptions(CLI::App& command, FuzzArguments& arguments) {
  command
      .add_option("--for", arguments.duration, "Time in all, shared by the kernels: 30s, 5m or 8h")
      ->type_name("TIME")
      ->capture_default_str();
  command.add_option("--jobs", arguments.jobs, "Processes at the same time, one core each")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--corpus", arguments.corpus,
                  "Folder for the inputs that are kept, to go on with: else in the report's")
      ->type_name("DIR");
  command.add_option("--seed", arguments.seed, "Where the search begins")->capture_default_str();
  command
      .add_option("--waivers", arguments.waivers,
                  "Findings that do not fail the run: a file as corpus/waivers.toml")
      ->type_name("FILE");
  const auto repeat = [](CLI::Option* option) {
    option->expected(1)->allow_extra_args(false)->take_all();
  };
  repeat(command
             .add_option("--property", arguments.properties,
                         "Of the property search: only those whose id matches; repeatable")
             ->type_name("GLOB"));
  repeat(command
             .add_option("--targets", arguments.targets,
                         "Folder with fuzz targets made with libFuzzer; else those of the presets "
                         "fuzz-fast and fuzz beside this build; 'none': the property search alone; "
                         "repeatable")
             ->type_name("DIR"));
  command
      .add_option("--seeds", arguments.seeds,
                  "Folder with a folder of first inputs for each target; else corpus/seeds")
      ->type_name("DIR");
}

}  // namespace

void AddFuzz(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<FuzzArguments>();
  CLI::App* command = app.add_subcommand(
      "fuzz",
      "Search a night long, guided by coverage and by error; goes on where a run with the same "
      "--report was cut off");
  command->add_option("KERNEL", arguments->kernels, "Kernels, one after the other");
  command
      ->add_option("--optional", arguments->optional_kernels,
                   "A kernel that is skipped where it is not installed, and does not decide the "
                   "exit status; repeatable")
      ->type_name("KERNEL")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  AddReportPaths(*command, arguments->paths);
  AddFuzzOptions(*command, *arguments);
  command->callback(
      [arguments, &line] { line.run = [arguments, &line] { return Fuzz(*arguments, line); }; });
}

}  // namespace attest
