#include "properties/harness/power/power_summary.h"

#include <algorithm>
#include <utility>

namespace attest {
namespace {

bool IsMutant(const Kill& kill) {
  return kill.subject.sort == SubjectSort::kFault || kill.subject.sort == SubjectSort::kNull;
}

// The lower one of two in the middle; 0 of none.
template <typename T>
T Median(std::vector<T> values) {
  if (values.empty()) return T{};
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

template <typename T>
T Largest(const std::vector<T>& values) {
  return values.empty() ? T{} : std::ranges::max(values);
}

GroupPower PowerOf(const std::vector<const Kill*>& kills) {
  GroupPower group;
  std::vector<int64_t> cases, quickest, elements;
  std::vector<double> seconds;
  for (const Kill* kill : kills) {
    ++group.total;
    if (!kill->first) continue;
    ++group.killed;
    cases.push_back(kill->first->cases);
    seconds.push_back(kill->first->seconds);
    if (!kill->subject.is_model) elements.push_back(Elements(kill->smallest));
    if (const PropertyKill* best = Quickest(*kill)) quickest.push_back(best->cases);
    group.asked += kill->subject.causes.empty() ? 0 : 1;
    group.named += kill->named_rightly ? 1 : 0;
  }
  group.median_cases = Median(cases);
  group.worst_cases = Largest(cases);
  group.median_seconds = Median(seconds);
  group.worst_seconds = Largest(seconds);
  group.median_quickest = Median(quickest);
  group.worst_quickest = Largest(quickest);
  group.median_elements = Median(elements);
  return group;
}

// Who kills what, by what each claims.
using Killers = std::map<std::string, std::vector<std::string>>;  // properties by subject

Killers KillersOf(const std::vector<Kill>& kills) {
  Killers killers;
  for (const Kill& kill : kills) {
    if (kill.subject.sort == SubjectSort::kCorrect) continue;
    for (const PropertyKill& by : kill.by) {
      if (IsOwnKill(by)) killers[kill.subject.id].push_back(by.property);
    }
  }
  return killers;
}

PropertyPower PowerOf(std::string_view property, const Killers& killers) {
  PropertyPower power;
  power.property = property;
  for (const auto& [subject, properties] : killers) {
    if (std::ranges::find(properties, property) == properties.end()) continue;
    const int64_t others = std::ssize(properties) - 1;
    power.fewest_others = power.kills.empty() ? others : std::min(power.fewest_others, others);
    power.kills.push_back(subject);
    if (others == 0) power.alone.push_back(subject);
  }
  return power;
}

}  // namespace

std::vector<std::string> PowerSummary::Idle() const {
  std::vector<std::string> idle;
  for (const PropertyPower& power : properties) {
    if (power.kills.empty()) idle.push_back(power.property);
  }
  return idle;
}

PowerSummary Summarise(const std::vector<Kill>& kills, const std::vector<std::string>& properties) {
  PowerSummary summary;
  std::vector<const Kill*> mutants;
  std::map<std::string, std::vector<const Kill*>> kinds;
  for (const Kill& kill : kills) {
    if (!kill.not_run.empty()) {
      summary.not_run.push_back(kill.subject.kernel);
    } else if (kill.subject.sort == SubjectSort::kCorrect) {
      if (!kill.by.empty()) summary.false_alarms.push_back(kill.subject.kernel);
    } else if (IsMutant(kill)) {
      mutants.push_back(&kill);
      kinds[kill.subject.kind].push_back(&kill);
      if (!kill.first) summary.missed.push_back(kill.subject.id);
    }
  }
  summary.all = PowerOf(mutants);
  for (const auto& [kind, of_kind] : kinds) summary.kinds[kind] = PowerOf(of_kind);
  const Killers killers = KillersOf(kills);
  for (const std::string& property : properties) {
    summary.properties.push_back(PowerOf(property, killers));
  }
  return summary;
}

}  // namespace attest
