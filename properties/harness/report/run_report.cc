#include "properties/harness/report/run_report.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

namespace attest {
namespace {

bool HasFailed(const KernelReport& kernel) {
  const auto is_fail = [](VerdictKind kind) { return kind == VerdictKind::kFail; };
  return std::any_of(kernel.results.begin(), kernel.results.end(),
                     [&](const PropertyResult& r) { return is_fail(r.verdict) && !r.waived; }) ||
         std::any_of(kernel.findings.begin(), kernel.findings.end(), [&](const ReportedFinding& f) {
           return is_fail(f.finding.verdict.kind) && f.waived.empty();
         });
}

// Also where nothing was decided: a kernel for which every property is unsupported has passed
// nothing.
// Of a kernel whose failures, if any, are all waived.
bool IsInconclusive(const KernelReport& kernel) {
  const auto of_kind = [&](auto... kinds) {
    return std::any_of(kernel.results.begin(), kernel.results.end(),
                       [&](const PropertyResult& r) { return ((r.verdict == kinds) || ...); });
  };
  return of_kind(VerdictKind::kInconclusive) ||
         !of_kind(VerdictKind::kPass, VerdictKind::kMarginal, VerdictKind::kFail);
}

}  // namespace

std::string_view Version() {
  return ATTEST_VERSION;
}

std::string PartText(const RunInfo& info) {
  if (!info.joined.empty()) {
    return fmt::format("joined from {}{}", info.joined,
                       info.incomplete ? ": not the whole run" : "");
  }
  if (info.shard_count == 1) return "";
  return fmt::format("shard {}/{}", info.shard_index, info.shard_count);
}

std::string ContractNameOf(const KernelReport& kernel) {
  return kernel.contract.name.empty() ? "of its own" : kernel.contract.name;
}

int64_t CountWaived(const KernelReport& kernel) {
  return std::ranges::count_if(
      kernel.findings, [](const ReportedFinding& reported) { return !reported.waived.empty(); });
}

int64_t CasesRun(const KernelReport& kernel) {
  int64_t sum = 0;
  for (const PropertyResult& result : kernel.results) sum += result.cases_run();
  return sum;
}

const PropertyResult* ResultOf(const KernelReport& kernel, const std::string& property) {
  for (const PropertyResult& result : kernel.results) {
    if (result.property == property) return &result;
  }
  return nullptr;
}

std::vector<std::string> PropertiesOf(const RunReport& report) {
  std::vector<std::string> properties;
  std::set<std::string> seen;
  for (const KernelReport& kernel : report.kernels) {
    for (const PropertyResult& result : kernel.results) {
      if (seen.insert(result.property).second) properties.push_back(result.property);
    }
  }
  return properties;
}

void FoldFindings(KernelReport& kernel) {
  std::map<bool, std::set<Signature>> named;  // by whether they are waived
  for (const ReportedFinding& reported : kernel.findings) {
    const Finding& finding = reported.finding;
    if (finding.verdict.kind == VerdictKind::kFail && !finding.signature.cause_class.empty()) {
      named[!reported.waived.empty()].insert(finding.signature);
    }
  }
  std::erase_if(kernel.findings, [&](const ReportedFinding& reported) {
    const Signature& own = reported.finding.signature;
    return own.cause_class.empty() &&
           std::ranges::any_of(named[!reported.waived.empty()],
                               [&](const Signature& other) { return Covers(own, other); });
  });
}

void AttributeFindings(KernelReport& kernel) {
  for (const ReportedFinding& reported : kernel.findings) {
    if (reported.finding.verdict.kind != VerdictKind::kFail) continue;
    for (PropertyResult& result : kernel.results) {
      if (result.property != reported.finding.signature.property) continue;
      if (result.verdict == VerdictKind::kFail) continue;
      result.verdict = VerdictKind::kFail;
      result.reason = "found by a derived case of another property";
    }
  }
}

int ExitCodeOf(const KernelReport& kernel) {
  if (HasFailed(kernel)) return 1;
  return IsInconclusive(kernel) ? 2 : 0;
}

int ExitCode(const RunReport& report) {
  bool any_counts = false;
  bool inconclusive = report.info.incomplete;
  for (const KernelReport& kernel : report.kernels) {
    if (kernel.optional) continue;
    any_counts = true;
    const int code = ExitCodeOf(kernel);
    if (code == 1) return 1;
    inconclusive = inconclusive || code == 2;
  }
  return !any_counts || inconclusive ? 2 : 0;
}

}  // namespace attest
