// The backward pass in double precision: the gradients of sum(dout * out) by q, k, v, bias and sinks,
// the plainest way there is, and how far a correct kernel may lie from them. BOUND.md has the
// derivation. Callers: the oracle of the judge, the reference kernel, tests.
#ifndef ATTEST_REFERENCE_GRADIENT_H_
#define ATTEST_REFERENCE_GRADIENT_H_

#include "impl/attention/array.h"
#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/reference/bound.h"
#include "impl/reference/reference.h"

namespace attest {

// One number an element of q, k, v, bias and sinks.
struct Gradient {
  Array dq;  // [batch, q_heads, q_len, head_dim]
  Array dk;  // [batch, kv_heads, kv_len, head_dim], summed over the query heads of a kv head
  Array dv;  // [batch, kv_heads, kv_len, value_dim]
  Array
      dbias;  // shaped as the bias, summed over what its extents of 1 broadcast to; empty without one
  Array dsink;  // [1, q_heads, 1, 1], summed over batch and rows; empty without sinks
};

// The gradients, of a problem that wants them. `reference` must come from the same problem and inputs.
// A key that a row does not see has no part in it, nor has a row without a visible key, whatever the
// semantics put into its output: where no row sees a key, and in such rows, there is exactly 0.
Gradient ComputeGradient(const Problem& problem, const Inputs& inputs, const Reference& reference,
                         const Semantics& semantics);

// The worst-case bound of each element of `due`, which ComputeGradient gave, for a kernel that has the forward's out and lse as its own
// forward stored them. 0 where exactly 0 is due. Infinite where nothing is claimed: where a row that
// takes part may overflow, where an input that takes part is not finite, and in the rows of empty_row
// other than zero.
Gradient BoundGradient(const Problem& problem, const Inputs& inputs, const Reference& reference,
                       const Gradient& due, ErrorBound& bound, const Contract& contract);

}  // namespace attest

#endif  // ATTEST_REFERENCE_GRADIENT_H_
