// When no faulty rule fits: the least widening of the declared arithmetic that would cover every
// wrong row. Private to the explainer.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_NUMERICS_SEARCH_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_NUMERICS_SEARCH_H_

#include <string>
#include <vector>

#include "properties/harness/judge/explain/explain.h"

namespace attest {

// The declaration as JSON, as a contract would hold it: {"f16": {"scores": "f16"}}; empty where none
// covers `wrong` rows, or only by a bound too wide to say anything. One change is tried before two,
// and small ones first.
std::string CoveringNumerics(const Mismatch& mismatch, const std::vector<Row>& wrong);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_NUMERICS_SEARCH_H_
