// Smaller variants of a case, for RapidCheck's and the fuzzer's findings alike. Every candidate is
// valid and strictly smaller by CaseMeasure, so any greedy loop over them ends.
#ifndef ATTEST_HARNESS_CASE_SHRINK_H_
#define ATTEST_HARNESS_CASE_SHRINK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "properties/harness/case/case.h"

namespace attest {

// A well-founded measure: lexicographic vector of non-negative integers (total elements, features
// on, data complexity, ...). Smaller is easier to read.
std::vector<uint64_t> CaseMeasure(const Case& c);

// Candidates, boldest first: drop features, halve and decrement dimensions (alone and jointly),
// simplify data families, masks, lengths, layouts, literals. At most a few hundred.
std::vector<Case> ShrinkCandidates(const Case& c);

struct ShrinkResult {
  Case smallest;
  int64_t tries = 0;
  bool budget_spent = false;  // stopped early: a smaller case may exist
};

// Greedy descent: replaces the case by the first candidate for which `still_fails` holds, until
// none does or `max_tries` calls are spent. `c` itself is taken to fail.
ShrinkResult Shrink(const Case& c, const std::function<bool(const Case&)>& still_fails,
                    int64_t max_tries = 2000);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_SHRINK_H_
