// Reasons why a contract puts a property out of reach, for Property::unsupported: each function
// returns one phrase for people ("the contract offers no softcap"), or "" where the contract offers
// what is asked. Families combine them in their tables.
#ifndef ATTEST_PROPERTIES_NEEDS_H_
#define ATTEST_PROPERTIES_NEEDS_H_

#include <string>

#include "impl/attention/contract.h"

namespace attest {

std::string AlwaysSupported(const Contract& contract);
std::string NeedsCausal(const Contract& contract);
std::string NeedsWindow(const Contract& contract);
std::string NeedsLengths(const Contract& contract);  // lengths, or a mask that can stand for them
std::string NeedsMask(const Contract& contract);     // boolean or additive
std::string NeedsBias(const Contract& contract);
std::string NeedsLse(const Contract& contract);
std::string NeedsWeights(const Contract& contract);

// "" where the contract has the feature.
std::string Lacks(const Contract& contract, Feature feature);

template <Feature kFeature>
std::string Needs(const Contract& contract) {
  return Lacks(contract, kFeature);
}

// The feature, or a mask that can stand for it.
template <Feature kFeature>
std::string NeedsOrMask(const Contract& contract) {
  return contract.Has(kFeature) || NeedsMask(contract).empty() ? "" : Lacks(contract, kFeature);
}

// The first reason of several.
template <std::string (*... kReasons)(const Contract&)>
std::string AllOf(const Contract& contract) {
  std::string reason;
  static_cast<void>((... || !(reason = kReasons(contract)).empty()));
  return reason;
}

// Why non-finite data in K or V that the feature hides are left open, or "". Without the feature a
// mask stands for it, and the promise for masks counts.
std::string LacksSafety(const Contract& contract, PoisonTensor tensor, Feature feature,
                        PoisonPlace place);

template <PoisonTensor kTensor, Feature kFeature, PoisonPlace kPlace>
std::string NeedsSafety(const Contract& contract) {
  const std::string reason = NeedsOrMask<kFeature>(contract);
  return reason.empty() ? LacksSafety(contract, kTensor, kFeature, kPlace) : reason;
}

}  // namespace attest

#endif  // ATTEST_PROPERTIES_NEEDS_H_
