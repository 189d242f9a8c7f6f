// What the judges of several families share: which rows a claim speaks of, and one loop over them.
// The comparisons themselves are the judge's (harness/judge/compare.h).
#ifndef ATTEST_PROPERTIES_JUDGING_H_
#define ATTEST_PROPERTIES_JUDGING_H_

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/evidence.h"

namespace attest {

// Whether the row is padding, which has a claim of its own.
bool IsOpenPadding(const Evidence& evidence, size_t index, const Row& row);

// Rows of case `index` for which the reference has finite sums: not empty, not padding, without
// a visible NaN in their scores, and in range.
bool IsOrdinary(const Evidence& evidence, size_t index, const Row& row);

// Calls check(row) for each row of the first case that is ordinary in every case that has it (all
// cases of equal rows, or `only` these), until one fails. Rows left out count as unconstrained.
using RowCheck = std::function<std::optional<Verdict>(const Row&)>;
Verdict JudgeOrdinaryRows(const Evidence& evidence, const RowCheck& check,
                          std::vector<size_t> only = {});

// One element of an output: what the kernel gave, what was due, and the worst-case bound.
struct Seen {
  double got = 0, due = 0, bound = 0;
};
Seen OutOf(const Evidence& evidence, size_t index, const Row& row, int64_t lane);
// Only where the outcome holds an lse.
Seen LseOf(const Evidence& evidence, size_t index, const Row& row);

// What an expected value is taken from, where it is no reference's: the same place of other calls, each of which moves
// it as much as itself.
struct ExpectedFrom {
  std::string_view due = "was due";
  std::vector<size_t> calls{};
};
ExpectedFrom TheFirstCall();                         // its very value
ExpectedFrom OtherCalls(std::vector<size_t> calls);  // what follows from theirs

// FAIL where `got` of call `index` lies further than `bound` from `expected`, with its likely cause. The call that is
// named as the witness is, of that one and of those that the expected value is from, the one that is furthest from its
// own reference.
std::optional<Verdict> Expect(const Evidence& evidence, size_t index, std::string_view output,
                              const Row& row, int64_t lane, double got, double expected,
                              double bound, std::string_view why, const ExpectedFrom& from = {});

// Whether outputs `names` ("lse", "weights", ...) of the first two calls agree, row by row, within
// both bounds. Where one call has no such output it is left out.
Verdict SameOutputs(const Evidence& evidence, const std::vector<std::string_view>& names,
                    std::string_view why);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_JUDGING_H_
