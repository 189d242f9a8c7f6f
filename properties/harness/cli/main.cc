// attest: does this kernel compute attention, as it says it does, for every input it says it takes?

#include <exception>
#include <string>

#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/run_report.h"

namespace {

constexpr char kExitCodes[] =
    "Exit status: 0 all pass, 1 findings, 2 inconclusive or nothing was run, 3 usage or bad "
    "input,\n"
    "4 a fault of the harness, such as a report that cannot be written.\n\n"
    "KERNEL is the name of an installed kernel (tiled, mutant:missing-rescale), or the path of a\n"
    "shared library with a slash in it (./libmine.so); options follow as ?key=value&key=value\n"
    "(tiled?tile=16).";

attest::CommandLine Describe(int argc, char** argv) {
  attest::CommandLine line;
  line.program = argc > 0 ? argv[0] : "attest";
  for (int i = 0; i < argc; ++i) {
    line.text += (i == 0 ? "" : " ") + attest::ShellQuote(argv[i]);
  }
  return line;
}

int Run(int argc, char** argv) {
  attest::CommandLine line = Describe(argc, argv);
  CLI::App app("Checks attention kernels against what they promise.", "attest");
  app.set_version_flag("--version", "attest " + std::string(attest::Version()));
  app.require_subcommand(1);
  app.footer(kExitCodes);
  AddCheck(app, line);
  AddProbe(app, line);
  AddReplay(app, line);
  AddShrink(app, line);
  AddList(app, line);
  AddVectors(app, line);
  AddFuzz(app, line);
  AddMerge(app, line);
  AddPower(app, line);
  AddNewKernel(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return attest::Complain(attest::kExitUsage,
                            std::string(error.what()) + ": 'attest --help' shows how");
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
