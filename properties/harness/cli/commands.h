// The subcommands of `attest`. Each function adds one to the parser; when the user asks for it,
// `run` is set to what it does, which returns the exit status.
#ifndef ATTEST_HARNESS_CLI_COMMANDS_H_
#define ATTEST_HARNESS_CLI_COMMANDS_H_

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace attest {

struct CommandLine {
  std::string program;  // argv[0]
  std::string text;     // all of it, quoted for a shell
  std::function<int()> run;
};

struct ReportPaths;
// --json, --junit and --report, of a command that makes a report.
void AddReportPaths(CLI::App& command, ReportPaths& paths);

void AddCheck(CLI::App& app, CommandLine& line);
void AddCheckModel(CLI::App& app, CommandLine& line);
void AddProbe(CLI::App& app, CommandLine& line);
void AddReplay(CLI::App& app, CommandLine& line);
void AddShrink(CLI::App& app, CommandLine& line);
void AddList(CLI::App& app, CommandLine& line);
void AddVectors(CLI::App& app, CommandLine& line);
void AddFuzz(CLI::App& app, CommandLine& line);
void AddMerge(CLI::App& app, CommandLine& line);
void AddPower(CLI::App& app, CommandLine& line);
void AddNewKernel(CLI::App& app, CommandLine& line);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_COMMANDS_H_
