// What the kills of many faulty kernels add up to: how many were caught and how soon, and what each
// property is good for.
#ifndef ATTEST_HARNESS_POWER_POWER_SUMMARY_H_
#define ATTEST_HARNESS_POWER_POWER_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "properties/harness/power/kill.h"

namespace attest {

// Of all mutants, or of those of one kind. Medians and worst are over those that were caught.
struct GroupPower {
  int64_t total = 0;
  int64_t killed = 0;
  int64_t median_cases = 0, worst_cases = 0;
  double median_seconds = 0, worst_seconds = 0;
  int64_t median_quickest = 0, worst_quickest = 0;  // cases, of the quickest property alone
  int64_t median_elements = 0;                      // of the smallest case
  int64_t asked = 0, named = 0;                     // whose cause is known; rightly named
};

struct PropertyPower {
  std::string property;
  std::vector<std::string> kills;  // ids of mutants and hostile kernels; see IsOwnKill
  std::vector<std::string> alone;  // those that no other property kills
  int64_t fewest_others = 0;  // of its kills, by how many other properties the rarest is killed
};

struct PowerSummary {
  GroupPower all;                           // faults and null kernels
  std::map<std::string, GroupPower> kinds;  // likewise, by kind of bug
  std::vector<std::string> missed;          // mutants that were run and not caught
  std::vector<std::string> false_alarms;    // correct kernels that were
  std::vector<std::string> not_run;         // subjects without a verdict
  std::vector<PropertyPower> properties;    // every property, in their order

  std::vector<std::string> Idle() const;  // properties without a kill
};

// `properties` are the ids of all that were run, in their order.
PowerSummary Summarise(const std::vector<Kill>& kills, const std::vector<std::string>& properties);

}  // namespace attest

#endif  // ATTEST_HARNESS_POWER_POWER_SUMMARY_H_
