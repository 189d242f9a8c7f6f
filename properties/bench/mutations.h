// Small changes to a sample that drive error / W up: what the guided search climbs by. Caller:
// search.cc.
#ifndef ATTEST_BENCH_MUTATIONS_H_
#define ATTEST_BENCH_MUTATIONS_H_

#include "properties/bench/distributions.h"

namespace attest {

// One change at random: a column of V aligned with the scores, of signs, or reading off one weight;
// q scaled or partly zeroed; a key copied, moved to a tile's edge, or put where its weight nearly
// underflows; keys in ascending order; scores lifted or sunk; powers of two; mantissa flips; a key
// dropped. Values stay rounded to the dtype.
void Mutate(Sample& sample, Random& random);

}  // namespace attest

#endif  // ATTEST_BENCH_MUTATIONS_H_
