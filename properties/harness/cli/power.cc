// attest power: every property on every kernel known to be faulty, to see what catches what, and on correct
// ones, to see that nothing is caught there.

#include <fnmatch.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/cli/power_run.h"
#include "properties/harness/cli/power_subjects.h"
#include "properties/harness/power/leave_out.h"
#include "properties/harness/power/power_json.h"
#include "properties/harness/power/power_summary.h"
#include "properties/harness/power/power_text.h"
#include "properties/harness/report/output_file.h"
#include "properties/property.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

// Findings that are shrunk, a kernel: enough for a majority to name the cause.
constexpr int kFindings = 8;

constexpr const char* kMarkdown = "power.md";

struct PowerArguments {
  std::string plan = "quick";
  std::string seed = "1";
  int jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::string> mutants;
  bool models = false;
  std::string folder;    // --report; empty = none
  std::string json;      // empty = none
  std::string kills;     // empty = none
  std::string duration;  // empty = no limit
  int64_t stop_after = 0;
};

// What was written, understood.
struct PowerPlan {
  std::vector<Subject> subjects;
  PowerOptions options;
  PowerInfo info;
};

tl::expected<std::vector<Subject>, std::string> SelectSubjects(
    std::vector<Subject> all, const std::vector<std::string>& globs) {
  if (globs.empty()) return all;
  // By its id as the mutants are listed, or by the name that `attest check` takes.
  const auto is_match = [](const Subject& subject, const std::string& glob) {
    return fnmatch(glob.c_str(), subject.id.c_str(), 0) == 0 ||
           fnmatch(glob.c_str(), subject.kernel.c_str(), 0) == 0;
  };
  for (const std::string& glob : globs) {
    if (std::ranges::none_of(all, [&](const Subject& s) { return is_match(s, glob); })) {
      return tl::unexpected(
          fmt::format("--mutant {}: matches no mutant: 'attest list {}' shows them", glob,
                      all.front().is_model ? "model-mutants" : "mutants"));
    }
  }
  std::erase_if(all, [&](const Subject& s) {
    return std::ranges::none_of(globs, [&](const std::string& glob) { return is_match(s, glob); });
  });
  return all;
}

tl::expected<PowerPlan, std::string> Understand(const PowerArguments& arguments) {
  const auto named = ParsePlan(arguments.plan);
  if (!named) return tl::unexpected(named.error());
  const auto seed = ParseSeed(arguments.seed);
  if (!seed) return tl::unexpected(seed.error());
  auto subjects =
      SelectSubjects(arguments.models ? ModelSubjects() : PowerSubjects(), arguments.mutants);
  if (!subjects) return tl::unexpected(subjects.error());
  PowerPlan plan;
  if (!arguments.duration.empty()) {
    const auto duration = ParseDuration(arguments.duration);
    if (!duration) return tl::unexpected(duration.error());
    plan.options.end = std::chrono::steady_clock::now() + *duration;
  }
  const bool is_short = arguments.stop_after > 0;
  plan.subjects = std::move(*subjects);
  plan.options.jobs = arguments.jobs;
  plan.options.check = {"--plan",
                        arguments.plan,
                        "--seed",
                        arguments.seed,
                        is_short ? "--stop-after" : "--max-findings",
                        std::to_string(is_short ? arguments.stop_after : kFindings)};
  if (arguments.models && !is_short) plan.options.check.resize(4);  // its findings are few
  plan.info.plan = arguments.plan;
  plan.info.seed = *seed;
  plan.info.is_matrix = arguments.mutants.empty() && !is_short;
  plan.info.is_of_models = arguments.models;
  return plan;
}

std::vector<std::string> PropertyIds(bool of_models) {
  std::vector<std::string> ids;
  if (of_models) {
    for (const ModelProperty& property : AllModelProperties()) ids.emplace_back(property.id);
  } else {
    for (const Property& property : AllProperties()) ids.emplace_back(property.id);
  }
  return ids;
}

double CpuSecondsOfChildren() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

tl::expected<void, std::string> WriteInto(const std::string& folder, const std::string& name,
                                          const std::string& text) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return tl::unexpected(fmt::format("cannot make the folder {}: {}", folder, error.message()));
  }
  return WriteFile((fs::path(folder) / name).string(), text);
}

// The ids of the properties that killed it by what they claim, a line each; where none did, of all that failed.
std::string KillerLines(const Kill& kill) {
  const bool has_own = std::ranges::any_of(kill.by, IsOwnKill);
  std::string text;
  for (const PropertyKill& by : kill.by) {
    if (!has_own || IsOwnKill(by)) text += by.property + "\n";
  }
  return text;
}

tl::expected<void, std::string> WriteReports(const PowerArguments& arguments, const PowerInfo& info,
                                             const PowerSummary& summary,
                                             const std::vector<Kill>& kills, int status) {
  tl::expected<void, std::string> done;
  if (!arguments.json.empty()) {
    done = WriteFile(arguments.json, PowerJsonLines(info, summary, kills, status));
  }
  if (done && !arguments.folder.empty()) {
    done = WriteInto(arguments.folder, kMarkdown, PowerMarkdown(info, summary, kills));
  }
  for (const Kill& kill : kills) {
    if (!done || arguments.kills.empty()) break;
    if (kill.subject.sort == SubjectSort::kCorrect || !kill.not_run.empty()) continue;
    done = WriteInto(arguments.kills, kill.subject.id, KillerLines(kill));
  }
  return done;
}

// 1 where something is amiss, 2 where only something was not run.
int StatusOf(const PowerInfo& info, const PowerSummary& summary) {
  const std::vector<std::string> complaints = Complaints(info, summary);
  const size_t not_run = summary.not_run.empty() ? 0 : 1;
  if (complaints.size() > not_run) return kExitFindings;
  return not_run > 0 ? kExitInconclusive : kExitPass;
}

tl::expected<void, std::string> CheckPaths(const PowerArguments& arguments) {
  std::vector<OutputPath> writes;
  if (!arguments.json.empty()) writes.push_back({"--json", arguments.json});
  if (!arguments.folder.empty()) {
    writes.push_back({"--report", arguments.folder, /*is_folder=*/true, {kMarkdown}});
  }
  if (!arguments.kills.empty()) writes.push_back({"--kills", arguments.kills, /*is_folder=*/true});
  return CheckOutputs({}, writes);
}

int Power(const PowerArguments& arguments, const CommandLine& line) {
  auto plan = Understand(arguments);
  if (!plan) return Complain(kExitUsage, plan.error());
  if (const auto fine = CheckPaths(arguments); !fine) return Complain(kExitUsage, fine.error());
  auto run = PowerRun::Open(plan->options);
  if (!run) return Complain(kExitHarness, run.error());
  const auto kills = (*run)->Run(plan->subjects, [](const Kill& kill) {
    Print(KillLine(kill));
    EndOutput(kExitPass);  // seen at once, in a pipe too
  });
  PowerInfo info = plan->info;
  info.command = line.text;
  info.cpu_seconds = CpuSecondsOfChildren();
  const PowerSummary summary = Summarise(kills, PropertyIds(arguments.models));
  info.is_matrix = info.is_matrix && summary.not_run.empty();
  const int status = StatusOf(info, summary);
  Print("\n" + SummaryText(info, summary));
  if (info.is_matrix && !info.is_of_models) Print(HeldOutText(kills, info.plan));
  const auto written = WriteReports(arguments, info, summary, kills, status);
  return written ? status : Complain(kExitHarness, written.error());
}

void AddOutputs(CLI::App& command, PowerArguments& arguments) {
  command.add_option("--report", arguments.folder, "Write the matrix to DIR/power.md")
      ->type_name("DIR");
  command.add_option("--json", arguments.json, "Write JSON lines to FILE")->type_name("FILE");
  command
      .add_option("--kills", arguments.kills,
                  "Write a file a mutant to DIR with the properties that kill it, for "
                  "attest_property_readme")
      ->type_name("DIR");
}

}  // namespace

void AddPower(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<PowerArguments>();
  CLI::App* command = app.add_subcommand(
      "power", "Run all properties on kernels known to be faulty: what catches what, how soon");
  command
      ->add_option("--plan", arguments->plan, "Cases per property: smoke, quick, ci or overnight")
      ->capture_default_str();
  command->add_flag("--models", arguments->models,
                    "The faulty Transformers and the properties of models instead");
  command->add_option("--seed", arguments->seed, "Same seed, same cases")->capture_default_str();
  command->add_option("--jobs", arguments->jobs, "Kernels run at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--mutant", arguments->mutants,
                   "Only kernels whose id matches the pattern; repeatable")
      ->type_name("GLOB")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command
      ->add_option(
          "--stop-after", arguments->stop_after,
          "End a kernel's run with its Nth finding: how soon it is caught, not by what else")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  command->add_option("--for", arguments->duration, "Stop after 30s, 5m or 8h")->type_name("TIME");
  AddOutputs(*command, *arguments);
  command->callback(
      [arguments, &line] { line.run = [arguments, &line] { return Power(*arguments, line); }; });
}

}  // namespace attest
