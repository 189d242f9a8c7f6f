// The reference as a kernel, for the tests of the properties: what a kernel that computes it and
// rounds would give, and the contract that lets every property apply.
#ifndef ATTEST_PROPERTIES_TESTING_H_
#define ATTEST_PROPERTIES_TESTING_H_

#include <string_view>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"
#include "properties/harness/judge/outcome.h"

namespace attest {

Contract NamedContractOf(std::string_view name);

// The strict contract over everything that attention has: each promise, each feature.
Contract WholeSurface();

Outcome FirstReference(const Case& c, const Contract& contract);

// Only where empty rows are zero with an lse of -inf, which is all the second one knows.
Outcome SecondReference(const Case& c, const Contract& contract);

// The first reference of another problem and other data, stored as the outcome of `c`.
Outcome ReferenceOf(const Case& c, const Problem& problem, const Inputs& inputs,
                    const Semantics& semantics, const Contract& contract);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_TESTING_H_
