// A deliberately plain attention kernel, scalar and correct, into which one fault can be switched.
// It walks the keys of each row in tiles of 4 with an online softmax, as real kernels do, because
// half of the faults live in tails and running maxima. Like tiled it shares no code with the
// oracle. blocked.h is its sibling with tiles of queries and split keys.
#ifndef ATTEST_MUTANTS_PLAIN_H_
#define ATTEST_MUTANTS_PLAIN_H_

#include "impl/abi/attest/kernel.h"
#include "impl/abi/call_view.h"
#include "impl/mutants/mutants.h"

namespace attest {

// Computes every output of the call with `mutation` switched on, its rows split over so many threads (0
// counts as 1). `mutation` is none of the null kernels'. May throw std::bad_alloc, and
// std::system_error where a thread cannot be started, and nothing else.
void PlainAttention(const CallView& call, Mutation mutation, int threads);

// Writes what the null kernel `mutation` makes of the call.
void NullAttention(const CallView& call, Mutation mutation);

// The plug-in's table: no variant gives the plain kernel without a fault, the variant "blocked" the
// blocked one, and any other the mutant of that id.
const attest_kernel_table* MutantKernelTable();

}  // namespace attest

#endif  // ATTEST_MUTANTS_PLAIN_H_
