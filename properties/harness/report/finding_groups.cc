#include "properties/harness/report/finding_groups.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/report/finding_text.h"

namespace attest {
namespace {

using Findings = std::vector<const ReportedFinding*>;

constexpr size_t kManyUnnamed = 3;

const Verdict& VerdictOf(const ReportedFinding* reported) {
  return reported->finding.verdict;
}

// What kind of fault was found: its class, or the phrase without its numbers.
std::string KindOf(const Verdict& verdict) {
  if (!verdict.cause_class.empty()) return verdict.cause_class;
  std::string kind = verdict.likely_cause;
  std::erase_if(kind, [](unsigned char c) { return std::isdigit(c) != 0; });
  return kind;
}

// Whether the class fits much by chance: what rows look like, and wider arithmetic.
bool IsLoose(const std::string& kind) {
  return IsSymptom(kind) || kind == "numerics";
}

// Whether the finding fits the kind, as its best cause or as another.
bool Fits(const ReportedFinding* reported, const std::string& kind) {
  const Verdict& verdict = VerdictOf(reported);
  return KindOf(verdict) == kind ||
         std::ranges::any_of(verdict.other_causes, [&](const OtherCause& other) {
           return other.cause_class == kind && !IsLoose(kind);
         });
}

bool IsOfAValue(const ReportedFinding* reported) {
  const Cause cause = reported->finding.signature.cause;
  return cause == Cause::kValue || cause == Cause::kNan || cause == Cause::kInf;
}

// The order within a group.
void SortByShowing(const std::string& kind, Findings& findings) {
  std::ranges::sort(findings, [&](const auto* a, const auto* b) {
    const bool other_a = KindOf(VerdictOf(a)) != kind, other_b = KindOf(VerdictOf(b)) != kind;
    return other_a != other_b ? other_b : ShowsBetter(a->finding, b->finding);
  });
}

// How loud the findings speak for a kind: by how many have it as their best cause, what the rows look like half as loud as
// a rule that gives them. Fitting alone says little: a row of one key fits much.
int64_t VotesFor(const std::string& kind, const Findings& findings) {
  const auto best = std::ranges::count_if(findings, [&](const ReportedFinding* reported) {
    return KindOf(VerdictOf(reported)) == kind;
  });
  return IsLoose(kind) ? best : 2 * best;
}

// The kind with most votes; of equals the one that was met first. "" where none has a kind.
std::string LoudestKind(const Findings& findings) {
  std::string loudest;
  int64_t most = 0;
  for (const ReportedFinding* reported : findings) {
    const std::string kind = KindOf(VerdictOf(reported));
    const int64_t votes = kind.empty() ? 0 : VotesFor(kind, findings);
    if (votes <= most) continue;
    most = votes;
    loudest = kind;
  }
  return loudest;
}

// Beside a rule that gives several findings a group of a kind that fits much by chance says little, and beside one that
// gives many so does any group of a single finding: they are no lights of their own, but stand below it with what names
// no cause.
void FoldWeak(size_t first, std::vector<FindingGroup>& groups, Findings& unexplained) {
  constexpr size_t kSeveral = 2, kMany = 8;
  if (groups.size() <= first || IsLoose(groups[first].kind)) return;
  const size_t strong = groups[first].findings.size();
  for (size_t i = first + 1; i < groups.size();) {
    const bool is_weak = (strong >= kSeveral && IsLoose(groups[i].kind)) ||
                         (strong >= kMany && groups[i].findings.size() == 1);
    if (!is_weak) {
      ++i;
      continue;
    }
    unexplained.insert(unexplained.end(), groups[i].findings.begin(), groups[i].findings.end());
    groups.erase(groups.begin() + static_cast<int64_t>(i));
  }
}

// Wrong values, pooled.
void AddPooled(Findings findings, std::vector<FindingGroup>& groups) {
  const size_t first = groups.size();
  for (std::string kind; !(kind = LoudestKind(findings)).empty();) {
    FindingGroup group{kind, {}};
    std::erase_if(findings, [&](const ReportedFinding* reported) {
      if (!Fits(reported, kind)) return false;
      group.findings.push_back(reported);
      return true;
    });
    SortByShowing(kind, group.findings);
    groups.push_back(std::move(group));
  }
  FoldWeak(first, groups, findings);
  if (findings.empty()) return;
  // A single finding with a name is no cause of many without.
  const bool has_strong = groups.size() > first &&
                          (groups[first].findings.size() > 1 || findings.size() < kManyUnnamed);
  if (has_strong) {
    groups[first].unexplained = std::move(findings);
  } else {
    SortByShowing("", findings);
    groups.insert(groups.begin() + static_cast<int64_t>(first), {"", std::move(findings)});
  }
}

// Faults that say all by themselves, the more frequent ones first; equals stay in the order of their keys.
void AddFaults(const Findings& findings, std::vector<FindingGroup>& groups) {
  std::map<std::tuple<Cause, std::string, std::string>, FindingGroup> by_key;
  for (const ReportedFinding* reported : findings) {
    const Signature& signature = reported->finding.signature;
    const std::string kind = KindOf(VerdictOf(reported));
    FindingGroup& group = by_key[{signature.cause, signature.output, kind}];
    group.kind = kind;
    group.findings.push_back(reported);
  }
  const size_t first = groups.size();
  for (auto& [key, group] : by_key) {
    SortByShowing(group.kind, group.findings);
    const auto place = std::find_if(
        groups.begin() + static_cast<int64_t>(first), groups.end(),
        [&](const auto& other) { return other.findings.size() < group.findings.size(); });
    groups.insert(place, std::move(group));
  }
}

}  // namespace

std::vector<FindingGroup> GroupsOf(const KernelReport& kernel) {
  std::vector<FindingGroup> groups;
  for (const bool is_waived : {false, true}) {
    Findings values, faults;
    for (const ReportedFinding& reported : kernel.findings) {
      if (reported.waived.empty() == is_waived) continue;
      (IsOfAValue(&reported) ? values : faults).push_back(&reported);
    }
    AddPooled(std::move(values), groups);
    AddFaults(faults, groups);
  }
  return groups;
}

std::string PropertiesText(const Findings& findings) {
  std::vector<std::string> order;
  std::map<std::string, int> counts;
  for (const ReportedFinding* reported : findings) {
    const std::string& id = reported->finding.signature.property;
    if (counts[id]++ == 0) order.push_back(id);
  }
  for (std::string& id : order) {
    if (counts.at(id) > 1) id += fmt::format(" ({})", counts.at(id));
  }
  return fmt::format("{}", fmt::join(order, ", "));
}

std::vector<std::string> RestOf(const FindingGroup& group) {
  std::vector<std::string> rest;
  const Findings others(group.findings.begin() + 1, group.findings.end());
  const bool is_one = others.size() == 1;
  if (!others.empty() && group.kind.empty()) {
    rest.push_back(fmt::format("{} more finding{} like it: {}", others.size(),
                               is_one ? " is" : "s are", PropertiesText(others)));
  } else if (!others.empty()) {
    rest.push_back(fmt::format("the same cause explains {} more finding{}: {}", others.size(),
                               is_one ? "" : "s", PropertiesText(others)));
  }
  if (!group.unexplained.empty()) {
    const size_t count = group.unexplained.size();
    rest.push_back(fmt::format("{} more finding{} no sure cause and may be of the same fault: {}",
                               count, count == 1 ? " names" : "s name",
                               PropertiesText(group.unexplained)));
  }
  return rest;
}

}  // namespace attest
