// attest shrink, where the case is one of a model.

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/cli/model_case_target.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/model/run_model.h"
#include "properties/harness/report/output_file.h"

namespace attest {
namespace {

ModelFinding Smallest(ModelCaseTarget& target, const Verdict& verdict, int64_t budget) {
  RunOptions options;
  options.shrink_budget = budget;
  options.shrink_time = std::chrono::minutes(10);
  options.stop = &Interrupted();
  return MakeModelFinding(target.property, target.file.c, verdict, target.lab(), options, {});
}

// That the case that is found can be written, over nothing that is read.
tl::expected<void, std::string> CheckOut(const std::string& out, const std::string& path,
                                         const ModelCaseFile& file) {
  if (out.empty()) return {};
  std::vector<std::string> reads = FilesOfKernels({file.model});
  if (!file.against.empty())
    std::ranges::copy(FilesOfKernels({file.against}), std::back_inserter(reads));
  reads.push_back(path);
  return CheckOutputs(reads, {{"-o", out}});
}

}  // namespace

int ShrinkModel(const ModelCaseArguments& arguments, const std::string& out, int64_t budget) {
  auto target = OpenModelCase(arguments);
  if (!target) return Complain(target.error().status, target.error().text);
  const ModelCaseFile& file = target->file;
  if (const auto fine = CheckOut(out, arguments.path, file); !fine) {
    return Complain(kExitUsage, fine.error());
  }
  const Verdict verdict = target->Check();
  if (target->lab().session().interrupted()) {
    return Complain(kExitInconclusive, "interrupted: nothing is said");
  }
  if (verdict.kind != VerdictKind::kFail) {
    return Complain(
        kExitInconclusive,
        fmt::format("{}: does not fail {} on {}: nothing to shrink ({})", arguments.path,
                    target->property.id, file.model, Name(verdict.kind)));
  }
  const ModelFinding found = Smallest(*target, verdict, budget);
  ModelCaseFile smallest = file;
  smallest.c = found.smallest;
  smallest.finding = found.finding.verdict.sentence;
  if (out.empty()) {
    Print(ToToml(smallest));
  } else if (const auto written = WriteFile(out, ToToml(smallest)); !written) {
    return Complain(kExitHarness, written.error());
  }
  Print(fmt::format("# {} {} in {} tries; fails again in {} of {} reruns\n",
                    Name(found.finding.verdict.kind), ToString(found.finding.signature),
                    found.finding.shrink_steps, found.finding.confirmed,
                    found.finding.confirmations));
  if (Interrupted()) Print("# cut short: a smaller case may fail, too\n");
  return kExitFindings;
}

}  // namespace attest
