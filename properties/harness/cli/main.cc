// attest: does this kernel compute attention, as it says it does, for every input it says it takes?

#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/run_report.h"

namespace {

constexpr char kExitCodes[] =
    "Exit status: 0 all pass, 1 findings, 2 inconclusive or nothing was run, 3 usage or bad "
    "input,\n"
    "4 a fault of the harness, such as a report that cannot be written.";

constexpr char kKernelForms[] =
    "KERNEL is one of\n"
    "  NAME                     an installed kernel: tiled; 'attest list kernels' shows them\n"
    "  NAME:VARIANT             a variant of it: onnxruntime:mha, mutant:missing-rescale\n"
    "  ./FILE.so                a shared library; the name has a slash\n"
    "  python:FILE[:FUNCTION]   a function in Python\n"
    "  node:FILE[:FUNCTION]     a function in JavaScript\n"
    "and create options may follow each: NAME?KEY=VALUE&KEY=VALUE, such as 'tiled?tile=16'.";

attest::CommandLine Describe(int argc, char** argv) {
  attest::CommandLine line;
  line.program = argc > 0 ? argv[0] : "attest";
  for (int i = 0; i < argc; ++i) {
    line.text += (i == 0 ? "" : " ") + attest::ShellQuote(argv[i]);
  }
  return line;
}

// No command knows what to do with an option that is there and says nothing; and those that name kernels say
// how.
void CompleteCommands(CLI::App& app) {
  app.footer(std::string(kExitCodes) + "\n\n" + kKernelForms);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_option_no_throw("KERNEL") != nullptr) command->footer(kKernelForms);
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 0) continue;  // a flag
      option->check([](const std::string& value) {
        return value.empty() ? "is empty: give it a value, or leave it out" : "";
      });
    }
  }
}

// What is wrong, and where the help stands that is about it.
std::string Mend(const CLI::App& app, const CLI::ParseError& error, const std::string& first) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == first) {
      return fmt::format("{}: 'attest {} --help' shows how", error.what(), first);
    }
    names.push_back(command->get_name());
  }
  const std::string commands =
      fmt::format("the commands are {}: 'attest --help' says what they do", fmt::join(names, ", "));
  if (first.empty()) return "no command is given: " + commands;
  if (first.starts_with('-')) return fmt::format("{}: {}", error.what(), commands);
  return fmt::format("{}: is no command: {}", first, commands);
}

int Run(int argc, char** argv) {
  attest::CommandLine line = Describe(argc, argv);
  CLI::App app("Checks attention kernels against what they promise.", "attest");
  app.set_version_flag("--version", "attest " + std::string(attest::Version()));
  app.require_subcommand(1);
  AddCheck(app, line);
  AddCheckModel(app, line);
  AddProbe(app, line);
  AddReplay(app, line);
  AddShrink(app, line);
  AddList(app, line);
  AddVectors(app, line);
  AddFuzz(app, line);
  AddMerge(app, line);
  AddPower(app, line);
  AddNewKernel(app, line);
  CompleteCommands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return attest::Complain(attest::kExitUsage, Mend(app, error, argc > 1 ? argv[1] : ""));
  }
  return line.run();
}

}  // namespace

int main(int argc, char** argv) {
  attest::CatchSignals();
  int status = attest::kExitHarness;
  try {
    status = Run(argc, argv);
  } catch (const std::exception& error) {
    attest::Complain(attest::kExitHarness, std::string("internal fault: ") + error.what());
  }
  return attest::EndOutput(status);
}
