// The backward pass of the plain kernel, scalar and correct, into which one fault can be switched. As
// plain.h it shares no code with the oracle, nor with tiled.
#ifndef ATTEST_MUTANTS_BACKWARD_H_
#define ATTEST_MUTANTS_BACKWARD_H_

#include <mutex>
#include <vector>

#include "impl/abi/call_view.h"
#include "impl/mutants/mutants.h"

namespace attest {

// What a faulty backward pass keeps from call to call.
struct BackwardState {
  std::mutex mutex;
  std::vector<double> deltas;
};

// Writes all gradients that a backward call asks for, with `mutation` switched on; one of kind GRAD, or
// none. The call must bring the lse. The work is split over so many threads (0 counts as 1).
void PlainBackward(const CallView& call, Mutation mutation, int threads, BackwardState& state);

}  // namespace attest

#endif  // ATTEST_MUTANTS_BACKWARD_H_
