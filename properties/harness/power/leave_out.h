// Whether the order of the properties, tuned on some kinds of bug, helps with a kind it has not seen: for each kind
// the properties are put in the order that the kills of all other kinds would choose, and the kind's own
// mutants are met in that order. Caller: the text of `attest power` over a whole matrix.
#ifndef ATTEST_HARNESS_POWER_LEAVE_OUT_H_
#define ATTEST_HARNESS_POWER_LEAVE_OUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "properties/harness/power/kill.h"

namespace attest {

// Cases of all properties together until a mutant falls.
struct CasesToKill {
  int64_t median = 0, worst = 0;
  double within_50 = 0;  // share of the mutants, 0..1
};

struct HeldOut {
  std::string kind;  // "all": every mutant in the order that has not seen its kind
  int64_t mutants = 0;
  CasesToKill held_out;
  CasesToKill now;  // in the order of the table of properties
};

// Of the mutants among `kills` that were caught, in runs of every property under passes of `passes` cases
// (see PassesOf); the last row is "all". Empty where there are fewer than two kinds.
std::vector<HeldOut> LeaveOneKindOut(const std::vector<Kill>& kills,
                                     const std::vector<int64_t>& passes);

// The properties by how many of the mutants they kill that none before them does; those that add none
// keep their place behind. Exposed for its test.
std::vector<std::string_view> GreedyOrder(const std::vector<const Kill*>& kills);

// Some lines, for a plan that the program knows; "" where there is no table.
std::string HeldOutText(const std::vector<Kill>& kills, std::string_view plan);

}  // namespace attest

#endif  // ATTEST_HARNESS_POWER_LEAVE_OUT_H_
