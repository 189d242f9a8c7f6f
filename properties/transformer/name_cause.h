// Why the logits of a batch, or of a cache, are not those of the sequence at once: faults named by experiment, for of a
// black box nothing but its answers is known. Each rule is a pair of calls that differ in one thing, which a right model
// answers alike and a model with that fault does not; the first rule that holds is named. Only differences beyond
// every rounding are looked at. Callers: the properties of batches and caches, where a row has failed.
//
// In the order of the rules, the class and what it takes:
//   not-the-same-twice       the same call made twice in a row moves the row
//   request-before           another request before this one moves it, or a fresh model is right
//   reads-item-0             other tokens of item 0 move it, those of no other item do
//   reads-other-items        other tokens of other items move it
//   padding-visible          what padding holds moves it
//   mask-inverted            likewise, and its own tokens do not
//   not-causal-beside-padding  right without padding; with it a later token moves it
//   padding-counts           right without padding, wrong alone with padding of any content
//   lengths-of-other-items   wrong beside items of other lengths alone
//   source-forgotten         a token of the source does not move it, and does at once
//   chunk-not-causal         a later token of its chunk moves it
//   wrong-token-forgotten    a token out of reach moves it, and one within does not
//   forgets-tokens           some tokens before it do not move it, and do at once
//   reach-too-far            a token out of reach moves it
//   from-a-position-on       steps are right up to some position, and wrong from there
//   weights-in-a-step        right where all tokens are the same: whatever weights are, their mean is one value then
//   layers-in-a-step         wrong there, too (both with relative positions, which values do not have)
//   every-step               wrong in every step of a long sequence
#ifndef ATTEST_PROPERTIES_TRANSFORMER_NAME_CAUSE_H_
#define ATTEST_PROPERTIES_TRANSFORMER_NAME_CAUSE_H_

#include <functional>
#include <string>
#include <vector>

#include "properties/harness/judge/verdict.h"
#include "properties/harness/model/lab.h"
#include "properties/harness/model/model_case.h"

namespace attest {

// Names the cause of a verdict whose witness is a row that should be what its sequence gives alone and at once.
// `ask`: AtOnce or Generated, as the row came about. Leaves the verdict as it is where no rule holds.
using AskModel = ModelRequest (*)(const ModelCase&);
void NameCause(const ModelCase& c, AskModel ask, ModelLab& lab, Verdict& verdict);

// Names what the same call made twice in a row shows; true where it does.
bool NameUnstable(const ModelRequest& request, ModelLab& lab, Verdict& verdict);

// Sets class, likely cause and the end of the sentence.
void SetCause(std::string cause_class, std::string phrase, Verdict& verdict);

// Whether two rows differ by more than any rounding, or in what is not finite.
bool IsApart(const LogitsRow& a, const LogitsRow& b, const ModelLab& lab);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_TRANSFORMER_NAME_CAUSE_H_
