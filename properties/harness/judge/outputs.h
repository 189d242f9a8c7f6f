// The outputs of attention as a table, so that whoever compares them goes through one loop.
#ifndef ATTEST_HARNESS_JUDGE_OUTPUTS_H_
#define ATTEST_HARNESS_JUDGE_OUTPUTS_H_

#include <array>
#include <string_view>

#include "impl/reference/bound.h"
#include "impl/reference/reference.h"
#include "properties/harness/judge/outcome.h"

namespace attest {

struct Output {
  std::string_view name;
  Array Outcome::*observed;    // empty where not asked for or not offered
  Array Reference::*expected;  // never empty where the outcome holds the output
  double (*number)(const RowNumbers& numbers, int64_t lane);  // lane: value column, 0, or key
  double (*floor)(const RowFloor& floor, double expected);
  double (*settled)(const RowFloor& floor, double expected);
};

inline constexpr std::array<Output, 4> kOutputs = {{
    {"out", &Outcome::out, &Reference::out,
     [](const RowNumbers& n, int64_t lane) { return n.out[static_cast<size_t>(lane)]; },
     [](const RowFloor& floor, double out) { return floor.Out(out); },
     [](const RowFloor& floor, double out) { return floor.SettledOut(out); }},
    {"lse", &Outcome::lse, &Reference::lse, [](const RowNumbers& n, int64_t) { return n.lse; },
     [](const RowFloor& floor, double) { return floor.lse; },
     [](const RowFloor& floor, double) { return floor.SettledLse(); }},
    {"weights", &Outcome::weights, &Reference::weights,
     [](const RowNumbers& n, int64_t lane) { return n.weights[static_cast<size_t>(lane)]; },
     [](const RowFloor& floor, double weight) { return floor.Weight(weight); },
     [](const RowFloor& floor, double weight) { return floor.SettledWeight(weight); }},
    // No floor: W decides, in every row.
    {"scores", &Outcome::scores, &Reference::asked_scores,
     [](const RowNumbers& n, int64_t lane) { return n.scores[static_cast<size_t>(lane)]; },
     [](const RowFloor&, double) { return 0.0; }, [](const RowFloor&, double) { return 0.0; }},
}};

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_OUTPUTS_H_
