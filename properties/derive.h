// How properties make new cases out of the one they were given: the moves that several families
// share. Every function takes and returns valid cases, and draws what it needs from the case's own
// seed, so that a derivation is a pure function of the case.
#ifndef ATTEST_PROPERTIES_DERIVE_H_
#define ATTEST_PROPERTIES_DERIVE_H_

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/visibility.h"
#include "properties/harness/case/case.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/slice.h"
#include "properties/needs.h"
#include "properties/property.h"

namespace attest {

// A stream of draws that depends on the case's seed and on `salt` (one per use).
Draw DrawFor(const Case& c, uint64_t salt);

// The same case with its data spelled out, so that cutting and moving keeps every value.
Case AsLiteral(const Case& c);

// The case with `tensor` replaced by `values`, rounded as RoundedFor has it. K and V no longer share their heads.
Case WithData(Case c, DataTensor tensor, Array values);

// The case with the value family replaced: literal values and overrides of v are dropped.
Case WithValues(Case c, ValueFamily family);
// Likewise q and k.
Case WithScores(Case c, ScoreFamily family);
// Likewise the finite values of the additive mask.
Case WithBias(Case c, BiasFamily family);

// Make sure that a mechanism is there, drawing one where it is missing. They keep what is there.
Case EnsureCausal(Case c, const Contract& contract);
Case EnsureWindow(Case c, const Contract& contract);
Case EnsureLengths(Case c, const Contract& contract);
Case EnsureMask(Case c);
Case EnsureBias(Case c);  // with some -inf

// Moves the diagonal, where anything looks at it, to one that the contract can express.
Case Realign(Case c, const Contract& contract);

// The case with everything that hides, but the additive mask, written as one full boolean mask:
// boolean and block mask, causality and prefix, window, key lengths, documents.
Case WithExplicitMask(Case c);

// The case without its additive mask.
Case WithoutBias(Case c);

// The case without all those; the additive mask stays.
Case WithBiasAlone(Case c);

// The case without anything that hides.
Case WithoutHiding(Case c);

// `extra` more lanes of zeros in q and k, the scale kept.
Case PadLanes(const Case& c, int64_t extra);

// `extra` more keys at the end, hidden by key lengths; data drawn. A block mask becomes explicit.
Case ExtendKeys(const Case& c, int64_t extra);

// Derive's answers. Storage that no longer goes with a case is mended; sequences are packed, and heads
// share an address, in every case or in none.
Derived Of(std::vector<Case> cases);
// Each moved to its place: an initializer list would copy it, tensors and all.
template <std::same_as<Case>... More>
Derived Of(Case first, More... more) {
  std::vector<Case> cases;
  cases.reserve(1 + sizeof...(more));
  cases.push_back(std::move(first));
  (cases.push_back(std::move(more)), ...);
  return Of(std::move(cases));
}
Derived NotApplicable(std::string why);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_DERIVE_H_
