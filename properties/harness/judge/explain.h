// The likely cause of a wrong row, found by trying faulty rules: each hypothesis is computed with
// the reference and compared with what the kernel gave, so that the sentence is evidence and not a
// guess.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_H_

#include <string>

#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"

namespace attest {

// One phrase ("as if key 3, hidden by causality, took part"), or empty when no hypothesis fits.
// `out` is the kernel's output [batch, q_heads, q_len, value_dim]; only `row` is looked at.
// `tolerance` is how near, relative to the largest |v|, counts as a match.
std::string LikelyCause(const Problem& problem, const Inputs& inputs, const Array& out,
                        const Row& row, double tolerance);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_H_
