// The options that every run of properties has, of kernels and of models: which properties, how many cases, from
// which seed, for how long, and where the report goes. Callers: attest check, attest check-model.
#ifndef ATTEST_HARNESS_CLI_RUN_ARGUMENTS_H_
#define ATTEST_HARNESS_CLI_RUN_ARGUMENTS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/report_sink.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/runner/run_property.h"

namespace CLI {
class App;
}

namespace attest {

// What the user wrote.
struct RunArguments {
  std::string plan = "quick";
  std::vector<std::string> properties;
  std::string seed = "1";
  std::string duration;
  std::string shard = "0/1";
  ReportPaths paths{"", "", "attest-report", false};
  int confirmations = 3;
  int64_t stop_after = 0;  // findings; 0 = never
};

// Adds --plan, --property, --seed, --for, --shard, --json, --junit, --report, --confirmations and --stop-after.
void AddRunArguments(CLI::App& command, RunArguments& arguments);

// What it means, but for the properties, which are of kernels or of models.
struct AskedRun {
  RunOptions run;
  std::optional<std::chrono::seconds> duration;
  std::optional<int64_t> stop_after;
};
tl::expected<AskedRun, std::string> Understand(const RunArguments& arguments);

// The head of the report, so far as these options tell it.
RunInfo InfoOf(const CommandLine& line, const RunArguments& arguments, const AskedRun& asked);

// That the report of a run can be written, overwrites nothing that is read, and lies in no night's folder.
tl::expected<void, std::string> CheckRunPaths(const std::vector<std::string>& reads,
                                              const ReportPaths& paths);
// Opens the report once nothing is left to be refused.
tl::expected<std::unique_ptr<ReportSink>, std::string> BeginReport(const ReportPaths& paths);
// Prints the report, writes its pages and last lines, and returns the exit status.
int EndRun(const RunReport& report, ReportSink& sink);

// --for, cut into the parts of a run.
class TimeShares {
 public:
  // `parts` are yet to start.
  TimeShares(std::optional<std::chrono::seconds> duration, int64_t parts);
  // When the part that starts now must end: of what is left each part still to come gets the same; what one does not
  // use goes to those behind it. nullopt = it need not.
  std::optional<std::chrono::steady_clock::time_point> Next();

 private:
  std::optional<std::chrono::steady_clock::time_point> end_;
  int64_t left_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_RUN_ARGUMENTS_H_
