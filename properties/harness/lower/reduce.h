// From the features of a problem to those that a contract has: what it lacks becomes an explicit
// mask or an additive one, with the same visible sets and the same scores. Private to the lowering.
#ifndef ATTEST_HARNESS_LOWER_REDUCE_H_
#define ATTEST_HARNESS_LOWER_REDUCE_H_

#include <tl/expected.hpp>

#include "properties/harness/lower/lower.h"

namespace attest {

// The problem as the kernel will be asked it.
struct Reduced {
  Problem problem;
  Array bias;  // matches problem.bias
  bool via_mask = false;
};

// `c` must have passed WhyNotOffered. Moves to a boolean mask, where the contract lacks them:
// causality with window and prefix (together, for they share the diagonal), key lengths, documents,
// the block mask; to an additive one: ALiBi, where its values are exact in the bias's type, and the
// boolean mask.
tl::expected<Reduced, Unsupported> Reduce(const Case& c, const Inputs& inputs,
                                          const Contract& contract);

}  // namespace attest

#endif  // ATTEST_HARNESS_LOWER_REDUCE_H_
