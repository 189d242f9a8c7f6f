#include "properties/harness/report/contract_notes.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "properties/property.h"

namespace attest {
namespace {

// A contract's key, as the needs of properties name it, and how a contract says that it promises nothing there.
struct Promise {
  std::string_view key;
  std::string_view none;
};
constexpr std::array kPromises = {
    Promise{"poison_safe", "[]"},
    Promise{"visible_nan_propagates", "false"},
    Promise{"empty_row", "\"unspecified\""},
    Promise{"lse_empty_row", "\"unspecified\""},
    Promise{"padded_query_rows", "\"unspecified\""},
    Promise{"concurrent_calls", "false"},
    Promise{"far_strides", "false"},
};

// What a property needs of that key: "poison_safe k:length"; empty = nothing.
std::string NeedOf(const Finding& finding, std::string_view key) {
  const Property* property = FindProperty(finding.signature.property);
  if (property == nullptr) return "";
  std::string_view needs = property->needs;
  while (!needs.empty()) {
    const size_t end = std::min(needs.find(", "), needs.size());
    const std::string_view need = needs.substr(0, end);
    if (need == key || need.starts_with(std::string(key) + " ")) return std::string(need);
    needs.remove_prefix(std::min(end + 2, needs.size()));
  }
  return "";
}

// Promises that the kernel's own text does not make, and that findings rest on.
void AddPromiseNotes(const KernelReport& kernel, const nlohmann::json& json,
                     std::vector<std::string>& notes) {
  if (!json.contains("contract")) return;
  for (const Promise& promise : kPromises) {
    if (json.contains(promise.key)) continue;
    std::set<std::string> needs;
    for (const ReportedFinding& reported : kernel.findings) {
      needs.insert(NeedOf(reported.finding, promise.key));
    }
    needs.erase("");
    if (needs.empty()) continue;
    notes.push_back(
        fmt::format("findings rest on what the contract promises by naming {}: {}. A kernel that "
                    "does not promise it "
                    "says so: \"{}\": {}",
                    kernel.contract.name, fmt::join(needs, ", "), promise.key, promise.none));
  }
}

std::string FeatureNote(const KernelReport& kernel, const nlohmann::json& json) {
  if (json.contains("features")) return "";
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

}  // namespace

std::vector<std::string> ContractNotes(const KernelReport& kernel) {
  std::vector<std::string> notes;
  const auto json = nlohmann::json::parse(kernel.identity.contract_json, nullptr,
                                          /*allow_exceptions=*/false);
  if (!json.is_object()) return notes;
  if (std::string note = FeatureNote(kernel, json); !note.empty()) notes.push_back(std::move(note));
  AddPromiseNotes(kernel, json, notes);
  return notes;
}

}  // namespace attest
