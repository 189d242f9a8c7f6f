// Where an outcome is wrong: every row judged against the reference, as the judge does it, and the
// smallest plain region that holds all wrong rows. Private to the explainer.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_SURVEY_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_SURVEY_H_

#include <functional>
#include <string>
#include <vector>

#include "properties/harness/judge/explain/explain.h"

namespace attest {

// A set of rows that a fault may be confined to.
struct Region {
  std::string phrase;  // "in batch items above 0"; empty for all rows
  std::function<bool(const Row&)> contains;
};

struct Survey {
  std::vector<Row> wrong, right;  // rows that can be judged
  // Holds every wrong row, and is one that code paths differ in: a kernel may be right outside it by
  // a path of its own.
  Region region;
  std::string reach;  // "in every row", or in which and how many
};

Survey TakeSurvey(const Mismatch& mismatch);

// Whether the row of the outcome lies within `bound` of the reference, or of what the contract
// promises an empty row; true for rows that cannot be judged. `bound` may be of other arithmetic than
// the mismatch's own.
bool RowHolds(const Mismatch& mismatch, const Row& row, ErrorBound& bound);

// The largest error of the row in units of `numbers`.
double WorstRatio(const Mismatch& mismatch, const Row& row, const RowNumbers& numbers);

// Whether anything at all is promised of the row. Padding has a claim of its own, and is not.
bool RowIsJudged(const Mismatch& mismatch, const Row& row);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_SURVEY_H_
