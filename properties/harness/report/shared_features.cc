#include "properties/harness/report/shared_features.h"

#include <algorithm>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/report/waiver_conditions.h"

namespace attest {
namespace {

// Two findings share this or that by chance.
constexpr size_t kFewestFindings = 3;

// Conditions as waivers write them: what a reader sees here can be a waiver's `when`.
constexpr std::string_view kFeatures[] = {
    "causal", "window", "key_lengths", "query_lengths", "prefix_lengths", "documents", "block_mask",
    "mask",   "bias",   "softcap",     "alibi",         "sinks",          "dropout",   "fp8",
    "past",   "pages",  "ring",        "packed",        "gradients"};
constexpr std::string_view kOutputsSizesAndTypes[] = {
    "weights",      "lse",         "batch > 1",          "q_len > 1",
    "head_dim > 1", "q_heads > 1", "q_heads > kv_heads", "dtype = f64",
    "dtype = f16",  "dtype = bf16"};

const Case& CaseAtFault(const Finding& finding) {
  return finding.derived ? *finding.derived : finding.smallest;
}

// Of the conditions, those that all of the findings meet.
std::vector<std::string_view> SharedOf(std::span<const std::string_view> conditions,
                                       const std::vector<const ReportedFinding*>& findings) {
  std::vector<std::string_view> shared;
  if (findings.size() < kFewestFindings) return shared;
  for (const std::string_view condition : conditions) {
    const CaseCondition holds = ParseCaseCondition(condition).value();
    const bool is_shared = std::ranges::all_of(findings, [&](const auto* reported) {
      return holds(CaseAtFault(reported->finding), reported->finding.verdict);
    });
    if (is_shared) shared.push_back(condition);
  }
  return shared;
}

}  // namespace

std::string SharedFeatures(const std::vector<const ReportedFinding*>& findings) {
  std::vector<std::string_view> shared = SharedOf(kFeatures, findings);
  const std::vector<std::string_view> more = SharedOf(kOutputsSizesAndTypes, findings);
  shared.insert(shared.end(), more.begin(), more.end());
  return fmt::format("{}", fmt::join(shared, ", "));
}

bool ShareAFeature(const std::vector<const ReportedFinding*>& findings) {
  return !SharedOf(kFeatures, findings).empty();
}

}  // namespace attest
