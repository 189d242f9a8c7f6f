// The small-scope sweep: every problem of up to 3 queries and 3 keys, as cases. Most faults of
// visibility, lengths and diagonals show in the smallest problem that has them at all, so walking
// all of those finds what a random search may miss. The sizes, masks, diagonals, windows and
// lengths are run through one by one; the other flags ride along in pairs (flags.h). Callers: the
// sweep's test.
#ifndef ATTEST_EXHAUSTIVE_SMALL_CASES_H_
#define ATTEST_EXHAUSTIVE_SMALL_CASES_H_

#include <cstdint>
#include <functional>

#include "properties/harness/case/case.h"

namespace attest {

// Which of the cases to visit: every `stride`-th, of those the `shard`-th of `shards` equal parts.
struct SmallScope {
  int64_t max_len = 3;  // of q_len and kv_len; at most 3
  int64_t stride = 1;   // a prime other than 2, 3, 5 and 7, or it keeps step with some option
  int64_t shard = 0;    // 0 .. shards - 1
  int64_t shards = 1;
};

// How many cases there are: for q_len and kv_len from 0 to max_len all 2^(q_len * kv_len) masks,
// the second batch item with the complement, and none; key lengths 0 to kv_len, the second item
// with what is left, and none; batch 1 and 2; heads (1, 1), (2, 1) and (2, 2); window sides open,
// 0, 1 and 2; causal or not; diagonal offsets -3 to 3, the second item with the negative.
int64_t CountSmallCases(const SmallScope& scope);

// The case of that number in 0 .. CountSmallCases(scope) - 1, whatever stride and shards. Valid,
// and always the same.
Case SmallCase(const SmallScope& scope, int64_t number);

// Calls visit for each case of the scope, in order of their numbers, until it returns false.
// Returns how many calls those were.
int64_t ForEachSmallCase(const SmallScope& scope, const std::function<bool(const Case&)>& visit);

}  // namespace attest

#endif  // ATTEST_EXHAUSTIVE_SMALL_CASES_H_
