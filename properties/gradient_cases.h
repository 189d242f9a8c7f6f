// How the properties of the backward pass make their cases: any case becomes one that wants gradients,
// plain where no backward call can carry it. For gradients.cc and what stands beside it.
#ifndef ATTEST_PROPERTIES_GRADIENT_CASES_H_
#define ATTEST_PROPERTIES_GRADIENT_CASES_H_

#include <functional>
#include <string>

#include "properties/harness/case/gradients.h"
#include "properties/property.h"

namespace attest {

// Empty where the contract has a backward pass, else why the property is out of reach.
std::string NeedsBackward(const Contract& contract);

// The same where the backward pass must offer more: what kReason asks of its contract.
template <std::string (*kReason)(const Contract&)>
std::string OfBackward(const Contract& contract) {
  return contract.backward ? kReason(BackwardContract(contract)) : NeedsBackward(contract);
}

// Derives from the case with gradients wanted, or says why it does not.
Derived FromGradients(const Case& original, const Contract& contract,
                      const std::function<Derived(const Case&)>& derive);

// Of gradients_of_bias.cc. The first: a bias that broadcasts, and the same spelt out.
std::string NeedsSharedBiasGradient(const Contract& backward);
Derived SharedAndSpeltOut(const Case& original, const Contract& contract);
Verdict JudgeSharedBias(const Evidence& evidence);
// A constant that is added to every score of a row changes no output, so that its gradient is 0.
Derived WithABiasOfEachPair(const Case& original, const Contract& contract);
Verdict JudgeShift(const Evidence& evidence);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_GRADIENT_CASES_H_
