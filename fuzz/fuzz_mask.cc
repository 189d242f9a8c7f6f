// Hunts NaN and infinities made by masks: whatever lengths, causality, windows, boolean and
// additive masks hide, and whatever lies there, a row whose visible inputs are finite must come out
// finite, and an empty row as promised. Kernels: tiled with tiles that the small cases straddle,
// the fast one, and the reference.
#include "fuzz/target.h"

namespace attest {
namespace {

// Masks go wrong in small problems already, and small ones are tried a hundred times as often.
Case Small(const Case& c) {
  return CutDown(c, {.batch = 2, .q_len = 5, .kv_len = 9, .dim = 3, .kv_heads = 2, .ratio = 2});
}

}  // namespace

const FuzzTarget& TheTarget() {
  static const FuzzTarget kTarget = {
      {"tiled?tile=1", "tiled?tile=4", "tiled", "tiled:fast", "reference"},
      {"masks.make_no_nan_or_infinity", "empty_rows.", "masks.",
       "causal.poison_in_future_keys_does_not_matter",
       "causal.poison_in_future_values_does_not_matter",
       "padding.poison_in_padded_keys_does_not_matter",
       "padding.poison_in_padded_values_does_not_matter",
       "window.poison_in_keys_outside_does_not_matter",
       "window.poison_in_values_outside_does_not_matter", "documents.", "blocks."},
      Small};
  return kTarget;
}

}  // namespace attest
