// attest shrink: the smallest case with the same failure signature.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/cli/case_target.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/output_file.h"
#include "properties/harness/report/progress.h"
#include "properties/harness/runner/run_case.h"
#include "properties/harness/runner/run_property.h"

namespace attest {
namespace {

struct ShrinkArguments {
  std::string path;
  std::string kernel;
  std::string property;
  std::string out;
  int64_t budget = 10000;
  OpenKernelOptions open;
};

Finding Smallest(CaseTarget& target, const Failure& failure, const ShrinkArguments& arguments) {
  RunOptions options;
  options.shrink_budget = arguments.budget;
  options.shrink_time = std::chrono::minutes(10);
  options.stop = &Interrupted();
  ProgressLine progress;
  progress.SetKernel(target.kernel);
  const Property* named = FindProperty(failure.signature.property);
  return MakeFinding(named == nullptr ? *target.property : *named, failure, target.opened.contract,
                     *target.opened.session, options, progress);
}

// That the case that is found can be written, over nothing that is read.
tl::expected<void, std::string> CheckOut(const ShrinkArguments& arguments,
                                         const std::string& kernel) {
  if (arguments.out.empty()) return {};
  std::vector<std::string> reads = FilesOfKernels({kernel});
  reads.push_back(arguments.path);
  return CheckOutputs(reads, {{"-o", arguments.out}});
}

int Shrink(const ShrinkArguments& arguments) {
  if (const auto fine = CheckOut(arguments, arguments.kernel); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  if (const auto fine = CheckOpenOptions(arguments.open); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  auto target =
      OpenCaseTarget(arguments.path, arguments.property, arguments.kernel, arguments.open);
  if (!target) return Complain(target.error().status, target.error().text);
  // The kernel may be the one that the case names.
  if (const auto fine = CheckOut(arguments, target->kernel); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  MakeCalls(target->file.before, target->opened.contract, *target->opened.session);
  CaseResult result =
      RunCase(*target->property, target->file.c, target->opened.contract, *target->opened.session);
  if (target->opened.session->interrupted())
    return Complain(kExitInconclusive, "interrupted: nothing is said");
  if (result.failures.empty()) {
    return Complain(
        kExitInconclusive,
        fmt::format("{}: does not fail {} on {}: nothing to shrink ({})", arguments.path,
                    target->property->id, target->kernel, Name(result.verdict.kind)));
  }
  Failure& failure = result.failures.front();
  failure.before.insert(failure.before.begin(), target->file.before.begin(),
                        target->file.before.end());
  Finding finding = Smallest(*target, failure, arguments);
  finding.kernel = target->kernel;
  const std::string text = CaseFileText(finding);
  if (arguments.out.empty()) {
    Print(text);
  } else if (const auto written = WriteFile(arguments.out, text); !written) {
    return Complain(kExitHarness, written.error());
  }
  Print(fmt::format("# {} {} in {} tries; fails again in {} of {} reruns\n",
                    Name(finding.verdict.kind), ToString(finding.signature), finding.shrink_steps,
                    finding.confirmed, finding.confirmations));
  return kExitFindings;
}

}  // namespace

void AddShrink(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ShrinkArguments>();
  CLI::App* command = app.add_subcommand(
      "shrink",
      "Find the smallest case that fails in the same way: exit status 1 as it still fails");
  command->add_option("CASE", arguments->path, "The case file (TOML)")->required();
  command->add_option("KERNEL", arguments->kernel, "The kernel; else the one the file names");
  command
      ->add_option("--property", arguments->property, "The property; else the one the file names")
      ->type_name("ID");
  command->add_option("-o,--out", arguments->out, "Write the case there; else to stdout")
      ->type_name("FILE");
  command->add_option("--budget", arguments->budget, "Cases to try at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000000}))
      ->capture_default_str();
  AddOpenOptions(*command, arguments->open);
  command->callback([arguments, &line] { line.run = [arguments] { return Shrink(*arguments); }; });
}

}  // namespace attest
