// Whether wider arithmetic, which is said to cover the smallest case of a finding, covers the case as it was met too. Few
// rows and keys are covered by nearly anything, and an author who declares that declares a bug away. For MakeFinding.
#ifndef ATTEST_HARNESS_RUNNER_NUMERICS_OF_BOTH_H_
#define ATTEST_HARNESS_RUNNER_NUMERICS_OF_BOTH_H_

#include <string>

#include "impl/attention/contract.h"
#include "properties/harness/runner/run_case.h"
#include "properties/property.h"

namespace attest {

// The words for arithmetic that covers both cases (CoveringPhrase): those that the finding's verdict has, or those that
// are found for the case as it was met; empty where neither covers both. Where running them is interrupted, the
// verdict's.
std::string NumericsOfBoth(const Property& property, const Failure& met, const Finding& finding,
                           const Contract& contract, KernelSession& session);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_NUMERICS_OF_BOTH_H_
