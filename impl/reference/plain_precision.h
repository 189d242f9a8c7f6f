// Plain attention in the kernel's own precision: the yardstick of the "2x rule" (a kernel's error may
// be twice that of the plain computation). A figure for people used to it, not a verdict.
#ifndef ATTEST_REFERENCE_PLAIN_PRECISION_H_
#define ATTEST_REFERENCE_PLAIN_PRECISION_H_

#include "impl/attention/contract.h"
#include "impl/attention/numerics.h"
#include "impl/reference/reference.h"

namespace attest {

// out as the textbook computes it: all scores, their maximum, exp, sum, weights, P V, each operation
// rounded as `profile` declares (accumulate, scores, probability) and out to problem.dtype; dropout
// before a weight is rounded to `probability`. Rows that see no key are 0. Shape [batch, q_heads, q_len, value_dim].
Array ComputePlainPrecision(const Problem& problem, const Inputs& inputs,
                            const NumericsProfile& profile,
                            SoftcapOrder order = SoftcapOrder::kBeforeBias);

}  // namespace attest

#endif  // ATTEST_REFERENCE_PLAIN_PRECISION_H_
