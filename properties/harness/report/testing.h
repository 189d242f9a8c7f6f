// Reports made up for the tests of the writers.
#ifndef ATTEST_HARNESS_REPORT_TESTING_H_
#define ATTEST_HARNESS_REPORT_TESTING_H_

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "properties/harness/report/run_report.h"

namespace attest {

inline PropertyResult ResultOf(const std::string& kernel, const std::string& property,
                               VerdictKind kind, int64_t cases) {
  PropertyResult result;
  result.kernel = kernel;
  result.property = property;
  result.verdict = kind;
  result.cases[kind] = cases;
  result.wanted = cases;
  if (kind == VerdictKind::kUnsupported) result.reason = "no causal masking";
  return result;
}

inline KernelReport KernelWith(const std::string& name, std::vector<PropertyResult> results) {
  KernelReport kernel;
  kernel.kernel = name;
  kernel.identity = {name, "1.0", "{}"};
  kernel.identity.maps_views = true;  // as its contract, the default one, has it
  kernel.results = std::move(results);
  kernel.seconds = 2;
  return kernel;
}

// A marginal equivalence with a figure of each sort.
inline PropertyResult ResultWithNumbers() {
  PropertyResult result =
      ResultOf("k", "equivalence.matches_reference", VerdictKind::kMarginal, 15);
  result.rows = 100;
  result.uninformative_rows = 3;
  result.unconstrained_rows = 4;
  result.worst_ratio = 0.31;
  result.figures.probable_ratio = 0.6;
  result.figures.rms = 0.2;
  result.figures.plain_ratio = 1.4;
  result.marginal_reasons = {{"bits", 12}, {"statistics", 3}};
  result.reason = "bits in 12 cases, statistics in 3";
  return result;
}

inline ReportedFinding FindingOn(const std::string& kernel, const std::string& property) {
  ReportedFinding reported;
  Finding& finding = reported.finding;
  finding.kernel = kernel;
  finding.signature = {property, Cause::kValue, "out", ""};
  finding.smallest.problem.kv_len = 3;
  finding.verdict.kind = VerdictKind::kFail;
  finding.verdict.cause = Cause::kValue;
  finding.verdict.output = "out";
  finding.verdict.sentence = "a <wrong> & \"odd\" value\x01";
  finding.verdict.witness = Witness{{0, 0, 0, 0}, std::nan(""), 1, 0};
  reported.file = "attest-report/x.toml";
  reported.command = "attest replay attest-report/x.toml";
  return reported;
}

// One that has come by 2 where 1 was due, with a likely cause.
inline ReportedFinding Plain(const std::string& property,
                             const std::string& cause_class = "scale") {
  ReportedFinding reported = FindingOn("k", property);
  Verdict& verdict = reported.finding.verdict;
  verdict.witness = Witness{{0, 0, 0, 0}, 1, 2, 0};
  verdict.cause_class = reported.finding.signature.cause_class = cause_class;
  verdict.likely_cause = "as if so; in every row";
  verdict.sentence = "out is 2 where 1 was due: it does not match; as if so; in every row";
  return reported;
}

inline ReportedFinding WithNan(ReportedFinding reported) {
  reported.finding.verdict.witness->observed = std::nan("");
  reported.finding.signature.cause = reported.finding.verdict.cause = Cause::kNan;
  return reported;
}

// One for which no cause is known.
inline ReportedFinding Unnamed(const std::string& property) {
  ReportedFinding reported = Plain(property, "");
  reported.finding.verdict.likely_cause.clear();
  return reported;
}

inline RunReport ReportOf(std::vector<KernelReport> kernels) {
  RunReport report;
  report.info = {"attest", "attest check", "quick", 150, 1, 0, 1};
  report.kernels = std::move(kernels);
  return report;
}

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_TESTING_H_
