#include "properties/harness/cli/run_arguments.h"

#include <tuple>

#include <CLI/CLI.hpp>

#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/junit.h"
#include "properties/harness/report/terminal.h"

namespace attest {

void AddRunArguments(CLI::App& command, RunArguments& arguments) {
  command.add_option("--plan", arguments.plan, "Cases per property: smoke, quick, ci or overnight")
      ->capture_default_str();
  command
      .add_option("--property", arguments.properties,
                  "Only properties whose id matches the pattern; repeatable")
      ->type_name("GLOB")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command.add_option("--seed", arguments.seed, "Same seed, same cases")->capture_default_str();
  command
      .add_option("--for", arguments.duration,
                  "Stop after 30s, 5m or 8h; what is cut short is INCONCLUSIVE")
      ->type_name("TIME")
      ->check([](const std::string& text) {
        return text.empty() ? "no time: write a whole number and s, m, h or d" : "";
      });
  command.add_option("--shard", arguments.shard, "Run part i of n, 0 <= i < n")
      ->type_name("i/n")
      ->capture_default_str();
  AddReportPaths(command, arguments.paths);
  command
      .add_option("--confirmations", arguments.confirmations,
                  "Reruns of each finding; where not all fail, at least 20")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--stop-after", arguments.stop_after,
                  "End a run with its Nth finding; properties not run are INCONCLUSIVE")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
}

tl::expected<AskedRun, std::string> Understand(const RunArguments& arguments) {
  AskedRun asked;
  const auto named = ParsePlan(arguments.plan);
  if (!named) return tl::unexpected(named.error());
  const auto seed = ParseSeed(arguments.seed);
  if (!seed) return tl::unexpected(seed.error());
  const auto shard = ParseShard(arguments.shard);
  if (!shard) return tl::unexpected(shard.error());
  if (!arguments.duration.empty()) {
    const auto duration = ParseDuration(arguments.duration);
    if (!duration) return tl::unexpected(duration.error());
    asked.duration = *duration;
  }
  asked.run.plan = *named;
  asked.run.seed = *seed;
  std::tie(asked.run.shard_index, asked.run.shard_count) = *shard;
  asked.run.confirmations = arguments.confirmations;
  asked.run.stop = &Interrupted();
  if (arguments.stop_after > 0) asked.stop_after = arguments.stop_after;
  return asked;
}

RunInfo InfoOf(const CommandLine& line, const RunArguments& arguments, const AskedRun& asked) {
  RunInfo info;
  info.program = line.program;
  info.command = line.text;
  info.plan = asked.run.plan.name;
  info.cases_per_property = asked.run.plan.cases_per_property;
  info.seed = asked.run.seed;
  info.shard_index = asked.run.shard_index;
  info.shard_count = asked.run.shard_count;
  info.properties = arguments.properties;
  return info;
}

tl::expected<void, std::string> CheckRunPaths(const std::vector<std::string>& reads,
                                              const ReportPaths& paths) {
  const auto fine = CheckReportPaths(reads, paths);
  return fine ? CheckNoNight(paths.folder) : fine;
}

tl::expected<std::unique_ptr<ReportSink>, std::string> BeginReport(const ReportPaths& paths) {
  auto sink = ReportSink::Open(paths);
  if (!sink) return sink;
  if (const auto begun = (*sink)->BeginFolder(); !begun) {
    (*sink)->Abandon();
    return tl::unexpected(begun.error());
  }
  return sink;
}

int EndRun(const RunReport& report, ReportSink& sink) {
  const int status = ExitCode(report);
  Print(TerminalReport(report));
  if (sink.WantsPages(report)) sink.WritePages(report);
  const auto written = sink.Finish(SummaryLine(report, status, sink.lines()), JUnitText(report));
  return written ? status : Complain(kExitHarness, written.error());
}

TimeShares::TimeShares(std::optional<std::chrono::seconds> duration, int64_t parts) : left_(parts) {
  if (duration) end_ = std::chrono::steady_clock::now() + *duration;
}

std::optional<std::chrono::steady_clock::time_point> TimeShares::Next() {
  const int64_t left = left_--;
  if (!end_) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  return now >= *end_ ? now : now + (*end_ - now) / left;
}

}  // namespace attest
