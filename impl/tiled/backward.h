// The backward pass of tiled attention: dq, dk and dv from what the forward has left, its output and its
// lse, in memory that grows with the lengths and never with their product.
//
// A kv head and its query heads are one piece of work, so that no two threads ever add to one sum:
//  1. For each tile of keys, and for each row that has a part, no padding and not blind: D = dout . out.
//  2. Of each visible key in order the score is computed anew; its weight is exp(score - lse). With t =
//     dout . v, times what dropout leaves, and ds = weight * (t - D) times the slope of the softcap, dv
//     gets weight * dout, dk gets ds * q, and the row's own sum ds * k. A hidden pair is passed over, so
//     NaN in a hidden key reaches nothing.
//  3. The scale multiplies dq and dk once, at the end.
//
// Sums are in f32, f64 for f64. They depend on the row's and the key's own visible pairs alone, in
// ascending order: for dq of keys, for dk and dv of heads and rows within a head. So the bits are as
// independent of layout, mask form, batch, threads and hidden data as those of the forward pass, and of
// the tile size too.
#ifndef ATTEST_TILED_BACKWARD_H_
#define ATTEST_TILED_BACKWARD_H_

#include <tl/expected.hpp>

#include "impl/tiled/tiled.h"

namespace attest {

// Computes the gradients of a backward call (call.gradients is there), which must bring the lse. May
// throw as TiledAttention may.
tl::expected<void, CallError> TiledBackward(const CallView& call, const TiledOptions& options);

}  // namespace attest

#endif  // ATTEST_TILED_BACKWARD_H_
