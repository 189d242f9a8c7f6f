#include "properties/harness/judge/explain/explain.h"

#include <algorithm>

namespace attest {
namespace {

constexpr CauseClass kCauseClasses[] = {
    // what a row sees
    {"causal-ignored", "causality is not applied"},
    {"diagonal-top-left", "the diagonal starts at the top left, whatever its offset"},
    {"diagonal-bottom-right", "the diagonal ends at the bottom right, whatever its offset"},
    {"diagonal-slid", "the diagonal lies one key, or kv_len - q_len keys, off"},
    {"window-ignored", "the window, or one end of it, is not applied, or its ends are swapped"},
    {"packed-row-index", "a row's place among packed query heads is taken for that of its query"},
    {"window-left-end", "the window holds one key too many or too few before the diagonal"},
    {"window-right-end", "the window holds one key too many or too few after the diagonal"},
    {"lengths-ignored", "key lengths are not applied"},
    {"lengths-off-by-one", "key lengths are one too long or too short"},
    {"lengths-mistaken",
     "query lengths are taken for key lengths, or the reverse, or another sequence's length for "
     "its own"},
    {"causal-by-tile", "causality stops at the ends of tiles of keys"},
    {"triangle-repeated", "the triangle of the diagonal tile is laid over every tile of keys"},
    {kStridesMisread, "a tensor that does not lie contiguous is misread or miswritten"},
    {kStorageMisread, "keys in a past, in pages, in a ring or packed are misread"},
    {kPresentMisplaced, "keys or values stand at another place in the present"},
    {kNarrowOffset, "an offset into a tensor is counted in 32 bits"},
    {"narrow-integer", "a window's end, or a key's place in memory, is kept in too few bits"},
    {"mask-ignored", "the boolean mask is not applied"},
    {"mask-inverted", "the boolean mask is read with the opposite polarity"},
    {"mask-added", "the boolean mask is added to the scores as a number"},
    {"mask-transposed", "the boolean mask is read as [key, query]"},
    {"mask-head-major",
     "the planes of a mask are read as [head, batch], or for the heads of other items"},
    {"bias-ignored", "the additive mask is not applied"},
    {"bias-as-mask", "the additive mask hides, and its finite values are not added"},
    {"documents-ignored", "document numbers are not applied"},
    {"blocks-ignored", "the block mask is not applied"},
    {"prefix-ignored", "causality hides keys of the prefix"},
    {"prefix-off-by-one", "prefix lengths are one too long or too short"},
    {"batch-0-for-all", "something of batch item 0 is used for every item"},
    {"head-0-for-all", "a mask, slope or sink of head 0 is used for every head"},
    {"query-0-for-all", "a mask of query 0 is used for every query"},
    {"feature-of-other-head", "a mask, slope, sink or dropout mask of another head is used"},
    {"feature-of-other-item", "a mask, length, diagonal or document of another batch item is used"},
    {"feature-of-other-query", "a mask of another query is used"},
    // which vectors it reads
    {"kv-head-mapping", "query heads read the wrong kv head"},
    {"other-batch-read", "keys or values of another batch item are read"},
    {"query-misread", "q of another row is read"},
    {"row-misplaced", "rows hold the results of other rows"},
    {"value-rows-shifted", "values are not those of their keys"},
    {"past-ignored", "keys and values of the past are not read"},
    {"past-misplaced", "keys and values of the past come behind the new ones"},
    {"ring-misread", "a ring is read from another slot than its first"},
    {"page-misread", "keys and values of another page are read"},
    {"head-dim-tail", "the last components of q and k are left out"},
    {"value-dim-tail", "the last lanes of out are wrong"},
    {"input-rounded", "an input is rounded to a narrower type before use"},
    {"type-misread", "the bits of an input are read as those of another type"},
    {"fp8-scale-misread", "the scale of an 8-bit input is not applied, or is another's"},
    {"lanes-permuted", "the components of q, k, v or out stand in another order"},
    // tiles and single keys
    {"padded-keys-attended", "keys that pad a tile or a length take part"},
    {"last-tile-dropped", "the last partial tile of keys is left out"},
    {"tile-skipped", "one tile of keys is left out"},
    {"key-left-out", "one visible key is left out"},
    {"key-too-many", "one hidden key takes part"},
    {"key-counted-twice", "one key is counted twice"},
    // the softmax
    {"scale", "scores are scaled by another factor"},
    {"scores-clamped", "scores beyond some value are taken for it"},
    {"softcap-ignored", "the softcap is not applied"},
    {"softcap-value", "another softcap is applied than the one given"},
    {"hidden-before-softcap",
     "keys are hidden before the softcap, which leaves their scores finite"},
    {"hidden-finite", "hidden keys have a finite score, and take part where others are as low"},
    {"softcap-order", "the softcap is applied before the bias instead of after it, or the reverse"},
    {"alibi-ignored", "ALiBi is not applied"},
    {"alibi-slopes", "ALiBi has slopes of its own, or of the other sign, and not those given"},
    {"alibi-anchor", "ALiBi measures from the top left, whatever the diagonal's offset"},
    {"sinks-ignored", "the sinks take no part in the sum of weights"},
    {"sinks-repeated", "a sink is counted more than once"},
    {"sinks-scaled", "the sinks are multiplied by a factor"},
    {"sinks-capped", "the sinks go through the softcap too"},
    {"dropout-ignored", "dropout is not applied"},
    {"dropout-unscaled", "the weights that dropout keeps are not scaled"},
    {"dropout-scale", "the weights that dropout keeps are scaled by another factor"},
    {"dropout-order", "keys are dropped before the softmax"},
    {"scores-mode", "the scores output is that of another step"},
    {"scores-ignored", "q and k have no influence"},
    {"rescale-missing", "sums are not rescaled when the running maximum grows"},
    {"starting-maximum", "the running maximum starts at a finite value, below which scores vanish"},
    {"hidden-maximum", "the maximum is taken over hidden keys too"},
    {"shared-maximum", "the maximum is taken over other rows too"},
    {"not-normalised", "the sum of values is not divided by the sum of weights"},
    {"hidden-keys-in-sum", "the sum of weights runs over hidden keys"},
    {"split-merge", "splits of the keys are merged with wrong weights"},
    {"out-factor", "out is off by a constant factor"},
    {"output-rounding", "out is cut off at its last place instead of rounded"},
    {"lse-base", "the lse is a logarithm to another base"},
    {"lse-part", "the lse lacks its maximum, its sum or its sign"},
    {"lse-rounded", "the lse is kept in a narrower type than is due"},
    {"keys-centred", "the mean of the keys is taken from each, and the lse not put right"},
    {"empty-row", "a row that sees no key is not what the contract promises"},
    {"hidden-tile", "rows for which a whole tile of keys is hidden are NaN"},
    {"padded-query-rows",
     "rows beyond their query length, and they alone, are not what the contract promises"},
    {"hidden-nonfinite", "NaN or infinity in hidden data comes through"},
    // the backward pass
    {"gradient-scale", "the scale is left out of dq or dk"},
    {"gradient-delta", "what is taken off the gradient of the weights is not the row's dout . out"},
    {"gradient-softcap", "the slope of the softcap is taken for 1"},
    {"gradient-row-lost", "a row adds nothing to dk and dv"},
    {"gradient-of-one-head", "dk and dv are those of one query head of several"},
    {"gradient-of-shared-bias",
     "dbias is that of one of the rows, heads or items that share a bias"},
    {"gradient-bias-scaled", "dbias is multiplied by the scale"},
    {"gradient-sink-sign", "dsink has the wrong sign"},
    {"gradient-kv-head", "query heads add to dk and dv of the wrong kv head"},
    {"gradient-lanes", "dot products with dout run over some of its lanes alone"},
    {"gradient-split", "parts of the keys have a softmax of their own in the backward pass"},
    {"gradient-factor", "a gradient is off by a constant factor"},
    {"gradient-zero", "a gradient is 0 everywhere"},
    {"gradient-uninitialised", "a gradient holds what is not made of dout"},
    {kBackwardOverForward, "the backward pass writes over what the forward pass gave"},
    // the rest
    {kCallBefore, "the result depends on a call made before"},
    {kRerunDiffers, "the same call gives another result when it is made again"},
    {"constant-output", "out is one value everywhere", true},
    {"row-zero", "a row that sees keys is zero, as if it saw none", true},
    {"row-nan", "a row is NaN", true},
    {"nan-lost", "a NaN that a row sees does not come through", true},
    {kNumerics, "the result fits wider arithmetic than the contract declares"},
};

}  // namespace

std::span<const CauseClass> CauseClasses() {
  return kCauseClasses;
}

bool IsSymptom(std::string_view cause_class) {
  return std::ranges::any_of(kCauseClasses, [&](const CauseClass& one) {
    return one.is_symptom && one.id == cause_class;
  });
}

}  // namespace attest
