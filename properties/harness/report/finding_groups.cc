#include "properties/harness/report/finding_groups.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "properties/harness/judge/explain/explain.h"
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

// How many findings speak for each kind. What the rows look like speaks half as loud as a rule that
// gives them.
std::map<std::string, int64_t> VotesOf(const KernelReport& kernel) {
  std::map<std::string, int64_t> votes;
  for (const ReportedFinding& reported : kernel.findings) {
    const Verdict& verdict = reported.finding.verdict;
    votes[KindOf(verdict)] += IsSymptom(verdict.cause_class) ? 1 : 2;
  }
  return votes;
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
  // What has a name comes first, and of that what most findings agree on, plain ones before NaN; equals stay in the
  // order of their keys. (std::stable_sort is deprecated inside, says clang of g++'s.)
  using Rank = std::tuple<bool, int64_t, bool, size_t>;
  const auto votes = VotesOf(kernel);
  std::vector<std::tuple<Rank, int64_t, FindingGroup>> ranked;
  for (auto& [key, group] : groups) {
    std::sort(group.begin(), group.end(),
              [](const auto* a, const auto* b) { return ShowsBetter(a->finding, b->finding); });
    const Finding& first = group.front()->finding;
    const std::string kind = KindOf(first.verdict);
    const Rank rank{!kind.empty(), votes.at(kind), IsPlain(first), group.size()};
    ranked.emplace_back(rank, -std::ssize(ranked), std::move(group));
  }
  std::sort(ranked.begin(), ranked.end(), std::greater());
  std::vector<FindingGroup> sorted;
  for (auto& [rank, place, group] : ranked) sorted.push_back(std::move(group));
  return sorted;
}

}  // namespace attest
