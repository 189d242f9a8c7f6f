// attest probe: which conventions a black box follows, found by experiment.

#include <memory>
#include <span>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/probe/probe.h"
#include "properties/harness/probe/probe_text.h"
#include "properties/harness/report/terminal.h"

namespace attest {
namespace {

struct ProbeArguments {
  std::string kernel;
  bool json = false;
  OpenKernelOptions open;
};

int RunProbe(const ProbeArguments& arguments) {
  auto kernel = OpenKernel(arguments.kernel, arguments.open);
  if (!kernel) return Complain(kernel.error().status, kernel.error().text);
  probe::Lab lab([&](const Call& call) {
    if (!Interrupted().load()) return kernel->session->Run(std::span(&call, 1)).front();
    CallResult stopped;
    stopped.status = CallStatus::kUnsupported;
    stopped.message = "interrupted";
    return stopped;
  });
  const probe::ProbeReport report = probe::Probe(lab, kernel->contract);
  if (Interrupted().load()) return Complain(kExitInconclusive, "interrupted: nothing is said");
  Print(arguments.json ? probe::ReportJson(arguments.kernel, report)
                       : Printable(probe::ReportText(arguments.kernel, report, kernel->contract)));
  if (report.contradicts()) return kExitFindings;
  return report.answered ? kExitPass : kExitInconclusive;
}

}  // namespace

void AddProbe(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ProbeArguments>();
  CLI::App* command = app.add_subcommand(
      "probe",
      "Find out by experiment which conventions a kernel follows, beside what it declares:\n"
      "exit status 1 where a declaration is contradicted");
  command->add_option("KERNEL", arguments->kernel, "The kernel")->required();
  command->add_flag("--json", arguments->json, "Print one JSON object instead");
  AddDeadline(*command, arguments->open);
  command->callback(
      [arguments, &line] { line.run = [arguments] { return RunProbe(*arguments); }; });
}

}  // namespace attest
