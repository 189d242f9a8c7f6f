// Any kernel by every claim: ATTEST_FUZZ_KERNEL=KERNEL, as on the command line. A shared library is
// loaded into this process; instrumented with -fsanitize-coverage it is searched by its coverage,
// and any kernel by the bins of the cases and the errors of its results (guide.h).
#include "fuzz/target.h"

namespace attest {
namespace {

Case Bearable(const Case& c) {
  return CutDown(
      c, {.batch = 4, .q_len = 16, .kv_len = 100, .dim = 40, .kv_heads = 4, .work = kBearableWork});
}

}  // namespace

const FuzzTarget& TheTarget() {
  static const FuzzTarget kTarget = {
      {"tiled", "tiled:fast"},
      {"equivalence.", "row_sums.",  "causal.",  "window.",   "padding.",     "query_padding.",
       "masks.",       "documents.", "prefix.",  "blocks.",   "empty_rows.",  "tiling.",
       "heads.",       "symmetry.",  "algebra.", "numerics.", "sensitivity.", "scores.",
       "dropout.",     "cache.",     "fp8.",     "memory.",   "determinism."},
      Bearable};
  return kTarget;
}

}  // namespace attest
