// Comparing outcomes: element by element, NaN, infinities and signed zeros spelled out. Properties
// use these; nobody else knows what "the same bits" or "within the bound" means.
#ifndef ATTEST_HARNESS_JUDGE_COMPARE_H_
#define ATTEST_HARNESS_JUDGE_COMPARE_H_

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "impl/attention/array.h"
#include "impl/attention/contract.h"
#include "impl/attention/visibility.h"
#include "properties/harness/judge/evidence.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

// Bitwise equality as attest means it: +0 equals -0, any NaN equals any NaN.
bool SameBits(double a, double b);

// NaN matches NaN only, an infinity its like only; otherwise !(|a - b| > bound), with a NaN
// difference failing. An infinite bound passes anything.
bool WithinBound(double observed, double expected, double bound);

// Rows to look at; the default looks at all.
using RowFilter = std::function<bool(const Row&)>;

// Where an element of outcome A is found in outcome B: maps [batch, head, query, lane].
using Mapping = std::function<std::array<int64_t, 4>(const std::array<int64_t, 4>&)>;

// Whether a comparison looks at rows beyond their query length. They have a claim of their own, lest
// one fault in them fail every other.
enum class PaddedRows {
  kLeftOut,
  kAsPromised,  // computed like any other, or zero, by the contract; else nothing is due of them
};

// The difference between a kernel's outcome and the reference: out, lse, weights and scores where
// present.
// Beyond the worst-case bound it is FAIL, on the worst element; MARGINAL (statistics) where the finer
// tiers of the bound doubt what the worst case passes. Unconstrained rows are skipped, and rows that
// a visible NaN has made NaN unless the contract propagates it; empty rows are judged by the
// contract's promise. Padding that is left out, or of which nothing is due, is not counted. A value that its type cannot hold fails. `what` names the claim in the sentence.
Verdict MatchesReference(const Evidence& evidence, size_t index, std::string_view what,
                         const RowFilter& rows = {}, PaddedRows padded = PaddedRows::kLeftOut);

// Whether outcome `b` repeats outcome `a`: bit for bit when `exact` (the contract promises it),
// else a difference of at most bound_a + bound_b is MARGINAL (bits) and more is FAIL. Only rows that
// `rows` accepts (of a) are compared; `to_b` says where they lie in b (default: the same place). Rows
// that are padding in either are left out.
struct RelationOptions {
  bool exact = false;
  RowFilter rows;
  Mapping to_b;
  bool compare_weights = true;  // and scores; off where the key axes differ
  bool compare_lse = true;
};
Verdict SameResult(const Evidence& evidence, size_t a, size_t b, std::string_view what,
                   const RelationOptions& options = {});

// "out[batch 0, head 1, query 2, lane 3]".
std::string DescribeElement(std::string_view output, const std::array<int64_t, 4>& index);

// A failing verdict for one element, with its sentence: "out[batch 0, head 1, query 2, lane 3] is
// 0.5, expected 0.25 (bound 1e-07); the row sees keys 0-2 of 5: WHY".
Verdict FailAt(const Problem& problem, std::string_view output, const std::array<int64_t, 4>& index,
               double expected, double observed, double bound, std::string_view why,
               std::string_view due = "was due");

// Adds the likely cause of the row that case `index` has at `at`, where one is found: to the sentence too. `verdict` is
// a failure of one of its outputs.
void Explain(const Evidence& evidence, size_t index, const std::array<int64_t, 4>& at,
             Verdict& verdict);

// A pass over `rows` rows.
Verdict Pass(int64_t rows);

// Whether anything may happen in a row of case `index`, for some score or sum may overflow.
bool IsUnconstrained(const Evidence& evidence, size_t index, const Row& row);

// The cause that an observed value stands for, where `expected` was due.
Cause CauseOf(double observed, double expected);

// Combines verdicts of the parts of one claim: FAIL before MARGINAL before UNSUPPORTED before PASS;
// counts add up.
Verdict Worst(const Verdict& a, const Verdict& b);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_COMPARE_H_
