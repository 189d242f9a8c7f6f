// What is due of rows beyond their query length. The judge's comparisons and the explainer ask here.
#ifndef ATTEST_HARNESS_JUDGE_PADDING_H_
#define ATTEST_HARNESS_JUDGE_PADDING_H_

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"

namespace attest {

enum class PaddingDue {
  kAsAnyRow,  // the row is no padding, or the contract computes padding too
  kZeroOut,   // out is exactly 0; nothing is said of the other outputs
  kNothing,
};

// Packed sequences hold no padding, so nothing is due of it there.
PaddingDue PaddingDueOf(const Problem& problem, bool is_packed, const Contract& contract,
                        const Row& row);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_PADDING_H_
