// When no faulty rule fits and the errors look like roundings: the least widening of the declared
// arithmetic that would cover every wrong row. Private to the explainer.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_NUMERICS_SEARCH_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_NUMERICS_SEARCH_H_

#include <optional>
#include <string>
#include <vector>

#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/judge/explain/survey.h"

namespace attest {

// The declaration as JSON, as a contract would hold it: {"f16": {"scores": "f16"}}; empty where none
// covers `wrong` rows, or only by a bound too wide to say anything. One change is tried before two,
// and small ones first.
//
// A worst-case bound of poor arithmetic covers nearly anything, so the errors must look like roundings
// of it: within its probable bound too; in as many rows as errors of their size are found in; not all
// in one part of the tensor, with the other parts right; and, where the arithmetic does not truncate,
// as often away from zero as towards it.
std::string CoveringNumerics(const Mismatch& mismatch, const Survey& survey,
                             const std::vector<Row>& wrong);

// The cause in words, for a declaration that CoveringNumerics gave; and the contract that such words widen `contract`
// to: nullopt for other words.
std::string CoveringPhrase(const std::string& declaration);
std::optional<Contract> WidenedBy(const std::string& phrase, const Contract& contract);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_NUMERICS_SEARCH_H_
