// One answer from every kernel: dense, tiled and both references agree within the derived bound,
// whatever the case asks for. This is also the test of the bound: a correct kernel beyond it is a
// finding against the oracle.
#include "fuzz/target.h"

namespace attest {
namespace {

Case Bearable(const Case& c) {
  return CutDown(
      c, {.batch = 3, .q_len = 12, .kv_len = 72, .dim = 24, .kv_heads = 3, .work = kBearableWork});
}

}  // namespace

const FuzzTarget& TheTarget() {
  static const FuzzTarget kTarget = {
      {"tiled?tile=1", "tiled?tile=4", "tiled", "tiled:fast", "reference"},
      {"equivalence.", "algebra.", "numerics.", "row_sums.", "scores.", "dropout.", "fp8."},
      Bearable};
  return kTarget;
}

}  // namespace attest
