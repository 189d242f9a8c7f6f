// The second kernel for faults: correct attention in tiles of 4 queries by 4 keys, with the decisions
// that tiled kernels take for a whole tile (skip it, take it whole, look at each key), over splits
// of 8 keys that are merged, as split-KV kernels do. Faults live in it where that algorithm differs from
// the plain one's (plain.h). It promises as much as that one, and keeps it.
#ifndef ATTEST_MUTANTS_BLOCKED_H_
#define ATTEST_MUTANTS_BLOCKED_H_

#include "impl/abi/call_view.h"
#include "impl/mutants/mutants.h"

namespace attest {

// Computes every output of the call with `mutation` (kNone, or one whose home is the blocked kernel)
// switched on; heads and batch items are split over so many threads (0 counts as 1). Throws what
// PlainAttention does.
void BlockedAttention(const CallView& call, Mutation mutation, int threads);

}  // namespace attest

#endif  // ATTEST_MUTANTS_BLOCKED_H_
