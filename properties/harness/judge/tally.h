// Keeps the worst of many compared elements. Private to the judge.
#ifndef ATTEST_HARNESS_JUDGE_TALLY_H_
#define ATTEST_HARNESS_JUDGE_TALLY_H_

#include <array>
#include <optional>
#include <string_view>

#include "properties/harness/judge/evidence.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

struct Tally {
  Verdict verdict;  // counts and the worst ratio; a pass until someone makes it another
  double worst = -1;
  std::string_view output;
  Witness witness;

  // One element: the ratio of its error to the bound counts, and above 1 the worst is kept.
  void See(std::string_view name, const std::array<int64_t, 4>& index, double expected,
           double observed, double bound);
  bool failed() const { return worst > 1; }
};

// |observed - expected| / bound: at most 1 exactly where WithinBound holds.
double Ratio(double observed, double expected, double bound);

// Whether the floor settles every output of the row: they lie well within W.
bool IsSettledRow(const Outcome& outcome, const Reference& reference, ErrorBound& bound,
                  const Row& row);

// The value that the contract promises an empty row; nullopt where it promises none that can be
// checked here (the mean and the unmasked softmax have a property of their own).
std::optional<double> PromisedOut(EmptyRow what);
std::optional<double> PromisedLse(LseEmptyRow what);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_TALLY_H_
