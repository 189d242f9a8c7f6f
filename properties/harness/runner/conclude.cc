#include "properties/harness/runner/conclude.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

int64_t Count(const PropertyResult& result, VerdictKind kind) {
  const auto found = result.cases.find(kind);
  return found == result.cases.end() ? 0 : found->second;
}

// The first failure found under the property's own name, or nullptr.
const Finding* OwnFinding(const PropertyResult& result) {
  for (const Finding& finding : result.findings) {
    if (finding.signature.property == result.property &&
        finding.verdict.kind == VerdictKind::kFail) {
      return &finding;
    }
  }
  return nullptr;
}

std::string FlakyText(const RunFacts& facts) {
  if (facts.flaky_failures == 1) return facts.flaky;
  return fmt::format("{}; and {} more like it", facts.flaky, facts.flaky_failures - 1);
}

// "bits in 12 cases, statistics in 3".
std::string MarginalText(const std::map<std::string, int64_t>& reasons) {
  std::string text;
  for (const auto& [reason, cases] : reasons) {
    text += text.empty() ? fmt::format("{} in {} case{}", reason, cases, cases == 1 ? "" : "s")
                         : fmt::format(", {} in {}", reason, cases);
  }
  return text;
}

std::string NeverApplied(const RunFacts& facts) {
  const std::string why = Commonest(facts.not_applicable_reasons);
  return why.empty() ? "no case was run" : "no case drawn fits the claim: " + why;
}

std::string GaveUp(const RunFacts& facts, const PropertyResult& result) {
  return fmt::format("gave up after {} of {} cases, for too few of those drawn fit the claim: {}",
                     result.cases_run(), result.wanted, Commonest(facts.not_applicable_reasons));
}

std::pair<VerdictKind, std::string> Decide(const RunFacts& facts, const PropertyResult& result) {
  if (const Finding* failed = OwnFinding(result)) {
    return {VerdictKind::kFail, failed->verdict.reason.empty() ? facts.cut_short  // intermittent
                                                               : failed->verdict.reason};
  }
  if (facts.flaky_failures > 0) return {VerdictKind::kInconclusive, FlakyText(facts)};
  // Failing cases without a finding have a signature that was reported before.
  if (Count(result, VerdictKind::kFail) > 0) return {VerdictKind::kFail, facts.cut_short};
  if (!facts.cut_short.empty()) return {VerdictKind::kInconclusive, facts.cut_short};
  if (result.cases_run() == 0) {
    const std::string unsupported = Commonest(result.unsupported_reasons);
    if (!unsupported.empty()) return {VerdictKind::kUnsupported, unsupported};
    return {VerdictKind::kInconclusive, NeverApplied(facts)};
  }
  if (result.rows > 0 && result.uninformative_rows + result.unconstrained_rows >= result.rows) {
    return {VerdictKind::kInconclusive, "no row decided: every bound is too wide"};
  }
  // A narrow corner of the problem space is no evidence for a claim about all of it. What the contract
  // does not offer is not part of it.
  const bool is_narrow = result.not_applicable > Count(result, VerdictKind::kUnsupported);
  if (facts.gave_up && is_narrow) return {VerdictKind::kInconclusive, GaveUp(facts, result)};
  const int64_t passed = Count(result, VerdictKind::kPass) + Count(result, VerdictKind::kMarginal);
  if (passed == 0) return {VerdictKind::kInconclusive, facts.first_inconclusive};
  if (Count(result, VerdictKind::kMarginal) > 0) {
    return {VerdictKind::kMarginal, MarginalText(result.marginal_reasons)};
  }
  return {VerdictKind::kPass, ""};
}

}  // namespace

std::string Commonest(const std::map<std::string, int64_t>& counts) {
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? "" : most->first;
}

void Conclude(const RunFacts& facts, PropertyResult& result) {
  std::tie(result.verdict, result.reason) = Decide(facts, result);
}

}  // namespace attest
