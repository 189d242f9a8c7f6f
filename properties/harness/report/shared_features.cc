#include "properties/harness/report/shared_features.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attest {
namespace {

// Two findings share this or that by chance.
constexpr size_t kFewestFindings = 3;

using C = const Case&;

struct CaseFeature {
  std::string_view name;
  bool (*is_in)(C);
};

// As contracts and case files name them.
constexpr CaseFeature kFeatures[] = {
    {"causal", [](C c) { return c.problem.causal; }},
    {"window", [](C c) { return c.problem.window.active(); }},
    {"key_lengths", [](C c) { return c.problem.key_lengths.has_value(); }},
    {"query_lengths", [](C c) { return c.problem.query_lengths.has_value(); }},
    {"prefix_lengths", [](C c) { return c.problem.prefix_lengths.has_value(); }},
    {"documents", [](C c) { return c.problem.documents.has_value(); }},
    {"block_mask", [](C c) { return c.problem.block_mask.has_value(); }},
    {"mask", [](C c) { return c.problem.mask.has_value(); }},
    {"bias", [](C c) { return c.problem.bias.has_value(); }},
    {"softcap", [](C c) { return c.problem.softcap > 0; }},
    {"alibi", [](C c) { return c.problem.alibi_slopes.has_value(); }},
    {"sinks", [](C c) { return c.problem.sinks.has_value(); }},
    {"dropout", [](C c) { return c.problem.dropout.has_value(); }},
    {"gqa", [](C c) { return c.problem.q_heads != c.problem.kv_heads; }},
    {"fp8", [](C c) { return c.problem.fp8.has_value(); }},
    {"past", [](C c) { return c.storage.past > 0; }},
    {"pages", [](C c) { return c.storage.page_size > 0; }},
    {"ring", [](C c) { return c.storage.ring; }},
    {"packed", [](C c) { return c.storage.packed; }},
    {"gradients", [](C c) { return c.problem.want_gradients; }},
    {"several batch items", [](C c) { return c.problem.batch > 1; }},
    {"several heads", [](C c) { return c.problem.q_heads > 1; }},
    {"f64", [](C c) { return c.problem.dtype == DType::kF64; }},
    {"f16", [](C c) { return c.problem.dtype == DType::kF16; }},
    {"bf16", [](C c) { return c.problem.dtype == DType::kBF16; }},
};

C CaseAtFault(const Finding& finding) {
  return finding.derived ? *finding.derived : finding.smallest;
}

}  // namespace

std::string SharedFeatures(const std::vector<const ReportedFinding*>& findings) {
  if (findings.size() < kFewestFindings) return "";
  std::vector<std::string_view> shared;
  for (const CaseFeature& feature : kFeatures) {
    const bool is_shared = std::ranges::all_of(findings, [&](const ReportedFinding* reported) {
      return feature.is_in(CaseAtFault(reported->finding));
    });
    if (is_shared) shared.push_back(feature.name);
  }
  return fmt::format("{}", fmt::join(shared, ", "));
}

}  // namespace attest
