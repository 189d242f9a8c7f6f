// The present outputs against the keys and values that went in: copies, bit for bit, which no row of attention
// concerns.
#ifndef ATTEST_HARNESS_JUDGE_PRESENT_H_
#define ATTEST_HARNESS_JUDGE_PRESENT_H_

#include "impl/reference/reference.h"
#include "properties/harness/case/case.h"
#include "properties/harness/judge/outcome.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

// Passes where the outcome has no present. Else it names the first element that is not what went in, and, where
// the whole present is the keys or values in some other order, that order.
Verdict JudgePresent(const Case& c, const Inputs& inputs, const Outcome& outcome);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_PRESENT_H_
