// What is likely wrong with gradients that are not the reference's: faulty rules of a backward pass, of
// which one gives what the kernel gave, element for element. The forward pass is taken to be right.
// Private to the judge, but that the runner asks which cases are small enough.
#ifndef ATTEST_HARNESS_JUDGE_GRADIENT_CAUSES_H_
#define ATTEST_HARNESS_JUDGE_GRADIENT_CAUSES_H_

#include <cstddef>

#include "properties/harness/judge/evidence.h"
#include "properties/harness/judge/explain/explain.h"

namespace attest {

// The first rule that every element of case `index` fits which the bound does not leave open, and where every cause is
// wanted the others; empty where none does, and in cases so large that trying them would take long.
Explanation ExplainGradient(const Evidence& evidence, size_t index, CausesWanted wanted);

// Whether a case of this problem is small enough for that.
bool CanExplainGradient(const Problem& problem);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_GRADIENT_CAUSES_H_
