// The gradients of bias and sinks, beside the backward pass proper, for those calls that ask for them.
//
// An element of the bias may stand for many pairs, across heads and batch items. Each row of the bias is
// therefore one piece of work, which walks over all rows of the call that share it: batch items, heads
// and queries in ascending order, and their keys. The pairs' scores are computed anew. A sink gathers
// - exp(sink - lse) * D of its head's rows. The bits depend on neither threads nor hidden data.
#ifndef ATTEST_TILED_BIAS_GRADIENT_H_
#define ATTEST_TILED_BIAS_GRADIENT_H_

#include "impl/tiled/tiled.h"

namespace attest {

// Writes dbias and dsink of a backward call, where it has them; it must bring the lse.
void WriteBiasAndSinkGradients(const CallView& call, int threads);

}  // namespace attest

#endif  // ATTEST_TILED_BIAS_GRADIENT_H_
