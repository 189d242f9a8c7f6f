#include "properties/harness/power/leave_out.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace attest {
namespace {

using Order = std::vector<std::string_view>;

bool KilledBy(const Kill& kill, std::string_view property) {
  return std::ranges::any_of(
      kill.by, [&](const PropertyKill& by) { return by.cases > 0 && by.property == property; });
}

// Cases run until the `cases`-th of the property that stands at `place` of `count`.
int64_t CasesUntil(int64_t place, int64_t count, int64_t cases,
                   const std::vector<int64_t>& passes) {
  int64_t before = 0;  // cases of each property in the passes that are over
  for (const int64_t pass : passes) {
    if (cases <= pass) return count * before + place * (pass - before) + (cases - before);
    before = pass;
  }
  return count * before;
}

int64_t CasesIn(const Order& order, const Kill& kill, const std::vector<int64_t>& passes) {
  const int64_t count = std::ssize(order);
  int64_t fewest = count * passes.back();
  for (const PropertyKill& by : kill.by) {
    if (by.cases == 0) continue;
    const auto place = std::ranges::find(order, by.property) - order.begin();
    fewest = std::min(fewest, CasesUntil(place, count, by.cases, passes));
  }
  return fewest;
}

CasesToKill Total(std::vector<int64_t> cases) {
  std::ranges::sort(cases);
  const auto few = std::ranges::count_if(cases, [](int64_t n) { return n <= 50; });
  return {cases[cases.size() / 2], cases.back(),
          static_cast<double>(few) / static_cast<double>(cases.size())};
}

Order OrderNow() {
  Order order;
  for (const Property& property : AllProperties()) order.push_back(property.id);
  return order;
}

std::map<std::string, std::vector<const Kill*>> ByKind(const std::vector<Kill>& kills) {
  std::map<std::string, std::vector<const Kill*>> kinds;
  for (const Kill& kill : kills) {
    if (kill.subject.sort == SubjectSort::kFault && Quickest(kill) != nullptr) {
      kinds[kill.subject.kind].push_back(&kill);
    }
  }
  return kinds;
}

std::string Line(const HeldOut& row) {
  const auto text = [](const CasesToKill& cases) {
    return fmt::format("{:>6} {:>7} {:>4.0f} %", cases.median, cases.worst, 100 * cases.within_50);
  };
  return fmt::format("{:<9} {:>3}  {}   now {}\n", row.kind, row.mutants, text(row.held_out),
                     text(row.now));
}

}  // namespace

std::vector<std::string_view> GreedyOrder(const std::vector<const Kill*>& kills) {
  Order rest = OrderNow(), order;
  std::vector<const Kill*> left = kills;
  while (!rest.empty()) {
    const auto adds = [&](std::string_view property) {
      return std::ranges::count_if(left,
                                   [&](const Kill* kill) { return KilledBy(*kill, property); });
    };
    const auto best = std::ranges::max_element(rest, {}, adds);  // the first of equals
    const std::string_view property = *best;
    order.push_back(property);
    rest.erase(best);
    std::erase_if(left, [&](const Kill* kill) { return KilledBy(*kill, property); });
  }
  return order;
}

std::vector<HeldOut> LeaveOneKindOut(const std::vector<Kill>& kills,
                                     const std::vector<int64_t>& passes) {
  const auto kinds = ByKind(kills);
  if (kinds.size() < 2) return {};
  std::vector<HeldOut> rows;
  std::vector<int64_t> all_held_out, all_now;
  for (const auto& [kind, own] : kinds) {
    std::vector<const Kill*> others;
    for (const auto& [other, theirs] : kinds) {
      if (other != kind) others.insert(others.end(), theirs.begin(), theirs.end());
    }
    const Order tuned = GreedyOrder(others), today = OrderNow();
    std::vector<int64_t> held_out, now;
    for (const Kill* kill : own) {
      held_out.push_back(CasesIn(tuned, *kill, passes));
      now.push_back(CasesIn(today, *kill, passes));
    }
    all_held_out.insert(all_held_out.end(), held_out.begin(), held_out.end());
    all_now.insert(all_now.end(), now.begin(), now.end());
    rows.push_back({kind, std::ssize(own), Total(held_out), Total(now)});
  }
  rows.push_back({"all", std::ssize(all_now), Total(all_held_out), Total(all_now)});
  return rows;
}

std::string HeldOutText(const std::vector<Kill>& kills, std::string_view plan) {
  const Plan* found = FindPlan(plan);
  if (found == nullptr) return "";
  const std::vector<HeldOut> rows = LeaveOneKindOut(kills, PassesOf(*found));
  if (rows.empty()) return "";
  std::string text =
      "\nleft out: properties in the order that the kills of all other kinds choose; cases to the "
      "kill: median, "
      "worst, share within 50\n";
  for (const HeldOut& row : rows) text += Line(row);
  return text;
}

}  // namespace attest
