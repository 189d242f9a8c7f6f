// The likely cause of a wrong row, found by trying faulty rules: each hypothesis is computed with
// the reference and compared with what the kernel gave, so that the sentence is evidence and not a
// guess.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_H_

#include <string>

#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"
#include "properties/harness/judge/outcome.h"

namespace attest {

// One phrase ("as if key 3, hidden by causality, took part"), or empty when no hypothesis fits.
// Only `row` of the outcome's out and lse is looked at; a hypothesis must fit both, where the truth
// does not. Rules that nothing in this row tells apart are named together. `tolerance` is how near,
// relative to the largest |v| or to |lse| + 1, counts as a fit.
std::string LikelyCause(const Problem& problem, const Inputs& inputs, const Outcome& outcome,
                        const Row& row, double tolerance);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_H_
