// Sizes, strides, layouts and zero sizes: at every seam of a tile, from any memory, the result is
// that of the reference, each part of a batch is what it is alone, and nothing is read or written
// outside. Kernels: tiled with tiles of 1, 5 and 64 keys, and the fast one.
#include <utility>

#include "fuzz/target.h"

namespace attest {
namespace {

// What is hidden has targets of its own; without it the sizes are walked through faster.
Case WithoutMasks(const Case& c) {
  Case plain = c;
  Problem& p = plain.problem;
  p.mask.reset();
  p.bias.reset();
  p.bias_dtype.reset();
  p.documents.reset();
  p.block_mask.reset();
  p.dropout.reset();
  plain.overrides.clear();
  return CutDown(std::move(plain), {.q_len = 20, .kv_len = 140, .dim = 40, .work = kBearableWork});
}

}  // namespace

const FuzzTarget& TheTarget() {
  static const FuzzTarget kTarget = {
      {"tiled?tile=1", "tiled?tile=5&qtile=3", "tiled", "tiled:fast"},
      {"memory.", "tiling.", "heads.", "algebra.lanes_of_zeros_change_nothing",
       "symmetry.the_order_of_heads_does_not_matter",
       "symmetry.the_order_of_batch_items_does_not_matter",
       "determinism.a_batch_item_alone_equals_itself_in_the_batch",
       "equivalence.promised_calls_are_accepted", "equivalence.matches_reference"},
      WithoutMasks};
  return kTarget;
}

}  // namespace attest
