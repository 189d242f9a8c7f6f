// attest shrink: the smallest case with the same failure signature.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/case_target.h"
#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/cli/model_case_target.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/model/model_case.h"
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

// Whether the case fails by itself, behind the calls that it is said to need, in a worker of its own that the signal
// does not end.
bool FailsAfresh(const Finding& finding, const CaseTarget& target,
                 const ShrinkArguments& arguments) {
  const auto session = KernelSession::Open(target.opened.session->spec(), arguments.open.session);
  const Property* property = FindProperty(finding.signature.property);
  if (!session || property == nullptr) return false;
  Signature any_class = finding.signature;
  any_class.cause_class.clear();
  const CaseResult again =
      RunBehind(finding.before, *property, finding.smallest, target.opened.contract, **session);
  return std::ranges::any_of(again.failures,
                             [&](const Failure& one) { return Covers(any_class, one.signature); });
}

// What a signal cut short may end in the middle of a try, or of a sequence of calls that the case needs: where it does
// not fail afresh, the failure as it was met stands.
void KeepWhatFails(const Failure& met, const CaseTarget& target, const ShrinkArguments& arguments,
                   Finding& finding) {
  if (FailsAfresh(finding, target, arguments)) return;
  finding.smallest = met.c;
  finding.before = met.before;
  finding.signature = met.signature;
  finding.verdict = met.verdict;
  finding.confirmed = finding.confirmations = 0;
}

// Of the case that is printed: "# FAIL a.b/value/out in 12 tries; fails again in 3 of 3 reruns".
std::string Closing(const Finding& finding, bool is_cut_short) {
  std::string text = fmt::format("# {} {} in {} tries", Name(finding.verdict.kind),
                                 ToString(finding.signature), finding.shrink_steps);
  if (finding.confirmations > 0) {
    text +=
        fmt::format("; fails again in {} of {} reruns", finding.confirmed, finding.confirmations);
  }
  if (is_cut_short) text += "; cut short by a signal: a smaller case may fail, too";
  return text + "\n";
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
  if (const std::string text = ContentOf(arguments.path); IsModelCase(text)) {
    return ShrinkModel({arguments.path, text, arguments.kernel, arguments.property, arguments.open},
                       arguments.out, arguments.budget);
  }
  auto target =
      OpenCaseTarget(arguments.path, arguments.property, arguments.kernel, arguments.open);
  if (!target) return Complain(target.error().status, target.error().text);
  // The kernel may be the one that the case names.
  if (const auto fine = CheckOut(arguments, target->kernel); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  CaseResult result = RunBehind(target->file.before, *target->property, target->file.c,
                                target->opened.contract, *target->opened.session);
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
  const bool is_cut_short = Interrupted();
  if (is_cut_short) KeepWhatFails(failure, *target, arguments, finding);
  const std::string text = CaseFileText(finding);
  if (arguments.out.empty()) {
    Print(text);
  } else if (const auto written = WriteFile(arguments.out, text); !written) {
    return Complain(kExitHarness, written.error());
  }
  Print(Closing(finding, is_cut_short));
  return kExitFindings;
}

}  // namespace

void AddShrink(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ShrinkArguments>();
  CLI::App* command = app.add_subcommand(
      "shrink",
      "Find the smallest case that fails in the same way: exit status 1 as it still fails");
  command->add_option("CASE", arguments->path, "The case file (TOML)")->required();
  command->add_option("KERNEL", arguments->kernel,
                      "The kernel (or model); else the one the file names");
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
