#include "properties/bug_kinds.h"

#include <fnmatch.h>

#include <algorithm>
#include <sstream>

namespace attest {
namespace {

// Not here: LABEL, of models.
constexpr BugKind kKinds[] = {
    {"EMPTY",
     "a row with no visible key is NaN, not what was promised, or hides a NaN that is real",
     "empty_rows.* masks.make_no_nan_or_infinity query_padding.*"},
    {"DROPPED",
     "a mask source or an option is silently not applied, or applied where it should not be",
     "sensitivity.* masks.composition_equals_intersection equivalence.asking*"},
    {"TAIL", "a length or a head size that is no multiple of the tile",
     "tiling.every_seam* equivalence.matches_reference padding.*ing_padded_keys* memory.stays*"},
    {"POISON", "values in hidden or unwritten K and V reach the output",
     "*.poison_* *.*do_not_matter cache.pages*"},
    {"FORM", "the polarity or the form of a mask",
     "masks.boolean_equals* masks.lengths_equal* masks.one_hot* causal.flag* window.equals* "
     "blocks.equal* documents.equal* prefix.equals* scores.alibi_equals*"},
    {"BCAST", "the mask of another batch item, head or row", "masks.broadcast_* symmetry.*"},
    {"ONLINE", "the running maximum and sum of the online softmax",
     "numerics.rising* numerics.very_negative* numerics.one_dominant* masks.a_constant_bias* "
     "symmetry.the_order_of_keys* tiling.split*"},
    {"SPLIT", "merging parts of the keys, and the lse",
     "tiling.split* symmetry.keys_given_twice* algebra.a_vector_added* equivalence.matches_*"},
    {"WINDOW", "a sliding window's ends", "window.* sensitivity.the_window_matters"},
    {"STRIDE", "inputs that are not contiguous, read as if they were",
     "memory.strides* memory.heads_may_share*"},
    {"CAUSAL", "the causal diagonal in the wrong place",
     "causal.* masks.one_hot* sensitivity.the_diagonal* prefix.*"},
    {"FILL", "a finite stand-in for minus infinity",
     "masks.a_finite_bias* numerics.very_negative* masks.*do_not_matter empty_rows.*"},
    {"HEADS", "the wrong head or batch item in an address", "heads.* symmetry.the_order_of_heads*"},
    {"CACHE", "a KV cache, ring or block table", "cache.*"},
    {"SCALE", "the softmax scale missing, doubled or from the wrong size",
     "algebra.the_scale* sensitivity.the_scale* algebra.lanes_of_zeros* row_sums.*"},
    {"RACE", "results that change from run to run, with the thread count, or beside other calls",
     "determinism.*"},
    {"RANGE", "scores that overflow, rounding of very large values",
     "numerics.* row_sums.output_lies*"},
    {"INDEX", "an index, an offset or a window held in too few bits",
     "equivalence.matches_* window.* tiling.every_seam*"},
    {"CAP", "the softcap dropped or in the wrong order",
     "scores.*softcap* sensitivity.the_softcap* scores.capped*"},
    {"ALIBI", "ALiBi's slopes and anchors", "scores.alibi* sensitivity.alibi*"},
    {"ZERO", "lengths and sizes of zero", "memory.zero_sizes* cache.packed*"},
    {"CHUNK", "prefill in chunks, or decoding, disagrees with one call",
     "causal.chunked* cache.any_chunking* cache.decoding* tiling.a_query_alone*"},
    {"SINK", "attention sinks", "scores.a_sink* sensitivity.sinks*"},
    {"DV", "value_dim other than head_dim",
     "equivalence.matches_reference algebra.lanes_of_zeros* algebra.output_is_linear*"},
    {"DROPOUT", "dropout", "dropout.* sensitivity.the_dropout*"},
    {"STALE", "state kept between calls", "determinism.call_order*"},
    {"DTYPE", "a bias of another type than the query, and 8-bit inputs",
     "scores.a_wide_bias* fp8.*"},
    {"UNINIT", "rows never written", "memory.stays* equivalence.promised*"},
    {"GRAD", "gradients", "gradients.*"},
};

}  // namespace

std::span<const BugKind> BugKinds() {
  return kKinds;
}

std::vector<std::string_view> KindsOf(std::string_view property_id) {
  const std::string id(property_id);
  std::vector<std::string_view> kinds;
  for (const BugKind& kind : kKinds) {
    std::istringstream globs{std::string(kind.globs)};
    std::string glob;
    bool matches = false;
    while (globs >> glob) matches = matches || ::fnmatch(glob.c_str(), id.c_str(), 0) == 0;
    if (matches) kinds.push_back(kind.name);
  }
  return kinds;
}

}  // namespace attest
