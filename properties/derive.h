// How properties make new cases out of the one they were given: the moves that several families
// share. Every function takes and returns valid cases, and draws what it needs from the case's own
// seed, so that a derivation is a pure function of the case.
#ifndef ATTEST_PROPERTIES_DERIVE_H_
#define ATTEST_PROPERTIES_DERIVE_H_

#include <functional>
#include <string>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/visibility.h"
#include "properties/harness/case/case.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/slice.h"
#include "properties/property.h"

namespace attest {

// A stream of draws that depends on the case's seed and on `salt` (one per use).
Draw DrawFor(const Case& c, uint64_t salt);

// The same case with its data spelled out, so that cutting and moving keeps every value.
Case AsLiteral(const Case& c);

// The case with `tensor` replaced by `values` (rounded to the dtype).
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

// Moves the diagonal to one that the contract can express, where it is not one already.
Case Realign(Case c, const Contract& contract);

// The case with boolean mask, causality, window and lengths written as one full boolean mask; the
// additive mask stays.
Case WithExplicitMask(Case c);

// The case without its additive mask.
Case WithoutBias(Case c);

// The case without masks, bias, lengths, causality and window.
Case WithoutHiding(Case c);

// `extra` more keys at the end, hidden by key lengths; data drawn.
Case ExtendKeys(const Case& c, int64_t extra);

// Derive's answers.
Derived Of(std::vector<Case> cases);
Derived NotApplicable(std::string why);

// Reasons for Property::unsupported; "" where the contract offers what is asked.
std::string AlwaysSupported(const Contract& contract);
std::string NeedsCausal(const Contract& contract);
std::string NeedsWindow(const Contract& contract);
std::string NeedsLengths(const Contract& contract);  // lengths, or a mask that can stand for them
std::string NeedsMask(const Contract& contract);
std::string NeedsBias(const Contract& contract);
std::string NeedsLse(const Contract& contract);
std::string NeedsWeights(const Contract& contract);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_DERIVE_H_
