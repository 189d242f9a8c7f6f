// Sequences on a cache: a prefill, decode steps and appended chunks, keys in a past, in pages that
// move, in a ring that turns, in packed sequences. However the keys came and wherever they lie, the
// result is that of plain tensors in one call. Each claim below derives the calls of one sequence.
#include "fuzz/target.h"

namespace attest {
namespace {

Case Bearable(const Case& c) {
  return CutDown(c, {.batch = 3, .q_len = 8, .kv_len = 40, .dim = 9, .kv_heads = 2, .ratio = 3});
}

}  // namespace

const FuzzTarget& TheTarget() {
  static const FuzzTarget kTarget = {
      {"tiled?tile=1", "tiled?tile=4", "tiled", "tiled:fast"},
      {"cache.", "causal.chunked_equals_one_shot", "padding.", "query_padding.",
       "tiling.a_query_alone_equals_itself_among_others", "equivalence.matches_reference"},
      Bearable};
  return kTarget;
}

}  // namespace attest
