// Pairwise covering arrays: few rows of options in which every pair of values of two options
// occurs. Most faults need one option or two together, so such an array finds them at a fraction of
// the cost of all combinations. Used by the small-scope sweep (small_cases.h).
#ifndef ATTEST_EXHAUSTIVE_COVERING_ARRAY_H_
#define ATTEST_EXHAUSTIVE_COVERING_ARRAY_H_

#include <vector>

namespace attest {

// Factor f has the levels 0 .. level_counts[f] - 1; every count is at least 1. Each row holds one
// level a factor, and each pair of levels of two different factors stands together in at least one
// row. Greedy (as AETG), ties broken by a fixed seed: the same counts give the same rows. With
// fewer than two factors there are no pairs, and so no rows.
std::vector<std::vector<int>> CoverPairs(const std::vector<int>& level_counts);

}  // namespace attest

#endif  // ATTEST_EXHAUSTIVE_COVERING_ARRAY_H_
