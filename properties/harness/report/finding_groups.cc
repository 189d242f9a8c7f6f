#include "properties/harness/report/finding_groups.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/judge/explain/cause_features.h"
#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/shared_features.h"
#include "properties/property.h"

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

// Whether a stronger fault often looks so too: one key more or fewer, and whatever becomes of rows that see none.
bool IsVague(const std::string& kind) {
  constexpr std::string_view kVague[] = {"key-left-out", "key-too-many", "key-counted-twice",
                                         "empty-row"};
  return IsLoose(kind) || std::ranges::find(kVague, kind) != std::end(kVague);
}

// Whether reruns have shown it, where all else is a guess.
bool IsProven(const std::string& kind) {
  return kind == kCallBefore || kind == kRerunDiffers;
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

// Of a model, whose cases no measure of kernels tells apart, the one with the shorter case shows more.
bool ShowsMore(const ReportedFinding& a, const ReportedFinding& b) {
  if (a.case_text.empty() || b.case_text.empty()) return ShowsBetter(a.finding, b.finding);
  const auto rank = [](const ReportedFinding& one) {
    return std::tuple(one.finding.verdict.likely_cause.empty(), one.case_text.size());
  };
  return rank(a) != rank(b) ? rank(a) < rank(b) : ShowsBetter(a.finding, b.finding);
}

// The order within a group.
void SortByShowing(const std::string& kind, Findings& findings) {
  std::ranges::sort(findings, [&](const auto* a, const auto* b) {
    const bool other_a = KindOf(VerdictOf(a)) != kind, other_b = KindOf(VerdictOf(b)) != kind;
    return other_a != other_b ? other_b : ShowsMore(*a, *b);
  });
}

// The calls that findings are of, derived when first asked for.
class CallsOfFindings {
 public:
  explicit CallsOfFindings(const KernelReport& kernel) : kernel_(kernel) {
    is_via_mask_ =
        std::ranges::any_of(kernel.results, [](const PropertyResult& r) { return r.via_mask > 0; });
  }

  // Whether a fault of the kind may be what the finding shows. Of a model's cases nothing is known.
  bool MayShow(const std::string& kind, const ReportedFinding* reported) {
    if (kernel_.is_model) return true;
    // A mask may stand for any other way to hide.
    return (is_via_mask_ && kind.starts_with("mask-")) || HasFeature(kind, reported);
  }

  // Whether every finding is known to have what a fault of the kind is a fault of.
  bool AreAllOfTheFeature(const std::string& kind, const Findings& findings) {
    return !kernel_.is_model && std::ranges::all_of(findings, [&](const auto* reported) {
      return HasFeature(kind, reported);
    });
  }

 private:
  bool HasFeature(const std::string& kind, const ReportedFinding* reported) {
    return std::ranges::any_of(CallsOf(reported),
                               [&](const Case& call) { return MayShowIn(kind, call); });
  }

  const std::vector<Case>& CallsOf(const ReportedFinding* reported) {
    const auto [place, is_new] = calls_.try_emplace(reported);
    if (!is_new) return place->second;
    const Finding& finding = reported->finding;
    const Property* property = FindProperty(finding.signature.property);
    if (property != nullptr) {
      place->second = property->derive(finding.smallest, kernel_.contract).cases;
    }
    place->second.push_back(finding.smallest);
    return place->second;
  }

  const KernelReport& kernel_;
  bool is_via_mask_ = false;
  std::map<const ReportedFinding*, std::vector<Case>> calls_;
};

// The wrong values of a kernel.
class Pool {
 public:
  Pool(const Findings& findings, CallsOfFindings& calls)
      : all_(findings), rest_(findings), calls_(calls) {}

  std::vector<FindingGroup> Run() {
    GroupByKind();
    TakeNotAlone();
    DissolveWeak();
    PlaceRest();
    return std::move(groups_);
  }

 private:
  static constexpr int64_t kOfLooks = 1, kOfArithmetic = 2, kOfRule = 4, kOfAll = 12;

  // How loud a finding speaks for the kind that is its best: wider arithmetic half as loud as a rule that gives the rows,
  // what they look like half as loud as that. A kind that needs a feature which every finding has is most likely behind
  // them all; one that needs another than the findings share is behind none, and fits some by chance.
  int64_t VoteFor(const std::string& kind) {
    constexpr size_t kEnough = 4;
    const auto [vote, is_new] = votes_.try_emplace(kind, IsSymptom(kind) ? kOfLooks
                                                         : IsLoose(kind) ? kOfArithmetic
                                                                         : kOfRule);
    const bool may_be_shared = all_.size() >= kEnough && NeedsFeature(kind) && !IsVague(kind);
    if (!is_new || !may_be_shared) return vote->second;
    if (calls_.AreAllOfTheFeature(kind, all_)) {
      vote->second = kOfAll;
    } else if (ShareAFeature(all_)) {
      vote->second = kOfLooks;
    }
    return vote->second;
  }

  // The kind that the rest speaks for most loudly. Fitting alone says little: a row of one key fits much. Of equals the
  // one that was met first; "" where none has a kind.
  std::string LoudestKind() {
    std::map<std::string, int64_t> votes;
    for (const ReportedFinding* reported : rest_) {
      const std::string kind = KindOf(VerdictOf(reported));
      if (IsProven(kind)) return kind;
      votes[kind] += VoteFor(kind);
    }
    votes[""] = 0;
    std::string loudest;
    for (const ReportedFinding* reported : rest_) {
      std::string kind = KindOf(VerdictOf(reported));
      if (votes.at(kind) > votes.at(loudest)) loudest = std::move(kind);
    }
    return loudest.empty() ? loudest : WiderThan(loudest);
  }

  // The kind that fits all that `kind` fits, and names the cause of more beside: in small cases many rules come to the
  // same, and the one that the others show is the right one of all that. The kind itself where there is none.
  std::string WiderThan(std::string kind) {
    if (IsLoose(kind)) return kind;
    for (const ReportedFinding* reported : rest_) {
      const std::string other = KindOf(VerdictOf(reported));
      const bool is_new = !other.empty() && !IsVague(other) && !Fits(reported, kind);
      if (is_new && VoteFor(other) >= kOfRule && FitsWhatever(kind, other)) kind = other;
    }
    return kind;
  }

  // Whether all findings that fit `kind` fit the other one.
  bool FitsWhatever(const std::string& kind, const std::string& other) const {
    return std::ranges::all_of(rest_, [&](const ReportedFinding* reported) {
      return !Fits(reported, kind) || Fits(reported, other);
    });
  }

  void GroupByKind() {
    for (std::string kind; !(kind = LoudestKind()).empty();) {
      FindingGroup group{kind, {}};
      std::erase_if(rest_, [&](const ReportedFinding* reported) {
        if (!Fits(reported, kind)) return false;
        group.findings.push_back(reported);
        return true;
      });
      SortByShowing(kind, group.findings);
      groups_.push_back(std::move(group));
    }
  }

  // Beside results that depend on other calls, or on nothing that is known, what fails only now and then needs no cause
  // of its own.
  void TakeNotAlone() {
    if (groups_.empty() || !IsProven(groups_.front().kind)) return;
    FindingGroup& first = groups_.front();
    const auto take = [&](Findings& findings) {
      std::erase_if(findings, [&](const ReportedFinding* reported) {
        if (!ComesAndGoes(reported)) return false;
        first.not_alone.push_back(reported);
        return true;
      });
    };
    for (auto group = groups_.begin() + 1; group != groups_.end(); ++group) take(group->findings);
    take(rest_);
    std::erase_if(groups_, [](const FindingGroup& group) { return group.findings.empty(); });
  }

  static bool ComesAndGoes(const ReportedFinding* reported) {
    return reported->finding.confirmed < reported->finding.confirmations;
  }

  bool HasSeveral(const FindingGroup& group) const {
    constexpr size_t kSeveral = 2;
    return IsProven(group.kind) || (!IsLoose(group.kind) && group.findings.size() >= kSeveral);
  }

  // Whether the group speaks too softly to stand beside the first one: its kind fits much by chance, or it is one finding
  // beside many, or few guesses beside what reruns have shown. The first itself never does.
  bool IsWeak(const FindingGroup& group) const {
    constexpr size_t kMany = 8;
    const FindingGroup& first = groups_.front();
    if (&group == &first || !HasSeveral(first)) return false;
    const size_t shown = first.findings.size() + first.not_alone.size();
    const size_t few = IsProven(first.kind) ? shown / kMany : 1;
    return IsVague(group.kind) || (group.findings.size() <= few && shown >= kMany);
  }

  // The first strong group of whose fault the finding may be; nullptr = none.
  FindingGroup* StrongHomeOf(const ReportedFinding* reported) {
    const auto is_it = [&](const FindingGroup& group) {
      return HasSeveral(group) && !IsWeak(group) && calls_.MayShow(group.kind, reported);
    };
    const auto home = std::ranges::find_if(groups_, is_it);
    return home == groups_.end() ? nullptr : &*home;
  }

  // Likewise, else the first of any that has a rule, or that comes first.
  FindingGroup* HomeOf(const ReportedFinding* reported) {
    if (FindingGroup* strong = StrongHomeOf(reported)) return strong;
    const auto is_it = [&](const FindingGroup& group) {
      return (&group == &groups_.front() || !IsVague(group.kind)) &&
             calls_.MayShow(group.kind, reported);
    };
    const auto home = std::ranges::find_if(groups_, is_it);
    return home == groups_.end() ? nullptr : &*home;
  }

  // A weak group that shows nothing which a strong one could not show as well is no light of its own. One that does
  // stays, that finding first.
  void DissolveWeak() {
    for (size_t i = 1; i < groups_.size();) {
      Findings& findings = groups_[i].findings;
      const auto has_home = [&](const auto* reported) { return StrongHomeOf(reported) != nullptr; };
      if (!IsWeak(groups_[i]) || !std::ranges::all_of(findings, has_home)) {
        if (IsWeak(groups_[i])) ShowFirstWithout(has_home, findings);
        ++i;
        continue;
      }
      rest_.insert(rest_.end(), findings.begin(), findings.end());
      groups_.erase(groups_.begin() + static_cast<int64_t>(i));
    }
  }

  template <typename HasHome>
  static void ShowFirstWithout(HasHome has_home, Findings& findings) {
    const auto homeless = std::ranges::find_if_not(findings, has_home);
    std::rotate(findings.begin(), homeless, homeless + 1);
  }

  // What names no cause, or no longer. A single finding with a name is no cause of many without.
  void PlaceRest() {
    if (rest_.empty()) return;
    const bool is_one_beside_many = !groups_.empty() && !HasSeveral(groups_.front()) &&
                                    groups_.front().findings.size() == 1 &&
                                    rest_.size() >= kManyUnnamed;
    Findings homeless;
    for (const ReportedFinding* reported : rest_) {
      FindingGroup* home = is_one_beside_many ? StrongHomeOf(reported) : HomeOf(reported);
      (home == nullptr ? homeless : home->unexplained).push_back(reported);
    }
    if (homeless.empty()) return;
    SortByShowing("", homeless);
    groups_.insert(is_one_beside_many ? groups_.begin() : groups_.end(),
                   FindingGroup{"", std::move(homeless)});
  }

  const Findings all_;
  Findings rest_;
  CallsOfFindings& calls_;
  std::map<std::string, int64_t> votes_;  // of one finding, by kind
  std::vector<FindingGroup> groups_;
};

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
  CallsOfFindings calls(kernel);
  for (const bool is_waived : {false, true}) {
    Findings values, faults;
    for (const ReportedFinding& reported : kernel.findings) {
      if (reported.waived.empty() == is_waived) continue;
      (IsOfAValue(&reported) ? values : faults).push_back(&reported);
    }
    std::ranges::move(Pool(values, calls).Run(), std::back_inserter(groups));
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
  if (const std::string shared = SharedFeatures(group.findings); !shared.empty()) {
    rest.push_back(fmt::format("all {} have {}", group.findings.size(), shared));
  }
  if (!group.not_alone.empty()) {
    const size_t count = group.not_alone.size();
    rest.push_back(fmt::format("{} more finding{} not each time when run alone: {}", count,
                               count == 1 ? " fails" : "s fail", PropertiesText(group.not_alone)));
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
