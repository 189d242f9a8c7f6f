// What a row of a call sees, and what masks and biases say of it, with a mutation's mistakes: shared
// by the mutants' kernels (plain.h, blocked.h) and by the null kernels.
#ifndef ATTEST_MUTANTS_VISIBLE_H_
#define ATTEST_MUTANTS_VISIBLE_H_

#include "impl/abi/call_view.h"
#include "impl/mutants/mutants.h"

namespace attest {

// Whether row i of batch item b and query head h sees key j < kv_len.
bool PlainVisible(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                  int64_t j);

// Where the diagonal of batch item b is taken to start.
int64_t PlainDiagonalOffset(const CallView& call, Mutation mutation, int64_t b);

// Whether causality alone hides key j, which lies `beyond` keys after the diagonal, from row i.
bool CausalityHides(const CallView& call, Mutation mutation, int64_t b, int64_t i, int64_t j,
                    int64_t beyond);

// Whether the boolean mask attends; the call has one.
bool MaskAttends(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i,
                 int64_t j);

// Whether the mutation lets the boolean mask hide nothing, or something else than scores.
bool MaskHidesNoScore(Mutation mutation);

bool UsesBias(const CallView& call, Mutation mutation);

// The bias of a key, visible or hidden, as a double (exact for every element type). The call has one.
double BiasOf(const CallView& call, Mutation mutation, int64_t b, int64_t h, int64_t i, int64_t j);

}  // namespace attest

#endif  // ATTEST_MUTANTS_VISIBLE_H_
