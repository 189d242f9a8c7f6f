#include "properties/harness/report/feature_note.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attest {

std::string FeatureNote(const KernelReport& kernel) {
  const auto json = nlohmann::json::parse(kernel.identity.contract_json, nullptr,
                                          /*allow_exceptions=*/false);
  if (!json.is_object() || json.contains("features")) return "";
  if (!json.contains("contract")) {
    const bool is_short = std::ranges::any_of(kernel.results, [](const PropertyResult& result) {
      return result.verdict == VerdictKind::kUnsupported;
    });
    return is_short ? "the contract declares no features, so that all beyond plain attention is "
                      "UNSUPPORTED: list what the kernel has in `features`"
                    : "";
  }
  const bool is_refused = std::ranges::any_of(kernel.findings, [](const ReportedFinding& reported) {
    return reported.finding.signature.cause == Cause::kRefused;
  });
  return is_refused ? fmt::format(
                          "the contract declares no features of its own, so that it promises all "
                          "those of {}: list those that the kernel has in `features`",
                          kernel.contract.name)
                    : "";
}

}  // namespace attest
