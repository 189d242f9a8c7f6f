#include "properties/harness/report/finding_groups.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "properties/harness/report/finding_text.h"

namespace attest {
namespace {

// What kind of fault was found: its class, or the phrase without its numbers.
std::string KindOf(const Verdict& verdict) {
  if (!verdict.cause_class.empty()) return verdict.cause_class;
  std::string kind = verdict.likely_cause;
  std::erase_if(kind, [](unsigned char c) { return std::isdigit(c) != 0; });
  return kind;
}

}  // namespace

std::vector<FindingGroup> GroupsOf(const KernelReport& kernel) {
  std::map<std::tuple<Cause, std::string, std::string>, FindingGroup> groups;
  for (const bool named : {true, false}) {
    for (const ReportedFinding& reported : kernel.findings) {
      const Verdict& verdict = reported.finding.verdict;
      const Signature& signature = reported.finding.signature;
      if (KindOf(verdict).empty() == named) continue;
      const std::tuple key{signature.cause, signature.output, KindOf(verdict)};
      auto place = named ? groups.end() : groups.lower_bound(key);
      const bool alike = place != groups.end() && std::get<0>(place->first) == signature.cause &&
                         std::get<1>(place->first) == signature.output;
      (alike ? place->second : groups[key]).push_back(&reported);
    }
  }
  std::vector<FindingGroup> sorted;
  for (auto& [key, group] : groups) {
    std::sort(group.begin(), group.end(),
              [](const auto* a, const auto* b) { return ShowsBetter(a->finding, b->finding); });
    sorted.push_back(std::move(group));
  }
  // What has a name comes first, and of that what most findings agree on.
  std::map<std::string, int64_t> votes;
  for (const ReportedFinding& reported : kernel.findings) ++votes[KindOf(reported.finding.verdict)];
  std::ranges::stable_sort(sorted, std::greater(), [&](const FindingGroup& group) {
    const std::string kind = KindOf(group.front()->finding.verdict);
    return std::tuple(!kind.empty(), votes[kind], group.size());
  });
  return sorted;
}

}  // namespace attest
