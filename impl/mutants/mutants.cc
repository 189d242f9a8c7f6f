#include "impl/mutants/mutants.h"

namespace attest {
namespace {

constexpr Mutant kMutants[] = {
    {Mutation::kEmptyRowWithoutGuard, "empty-row-without-guard", MutantKind::kFault,
     "pytorch/pytorch#103749", "divides by the sum of weights even where a row saw no key",
     "an empty row is zero", "empty-row"},
    {Mutation::kDiagonalTopLeft, "diagonal-top-left", MutantKind::kFault,
     "Dao-AILab/flash-attention#282", "ignores the diagonal offset and starts at the top left",
     "row i stands at key i + offset", "diagonal-top-left"},
    {Mutation::kMissingRescale, "missing-rescale", MutantKind::kFault, "paiml/aprender#2753",
     "keeps sums as they are when the running maximum grows", "weights are a softmax",
     "rescale-missing"},
    {Mutation::kLastTileFull, "last-tile-full", MutantKind::kFault, "jax-ml/jax#27224",
     "fills up a last partial tile with keys of score 0 and value 0",
     "keys beyond kv_len do not exist", "padded-keys-attended"},
    {Mutation::kPoisonThroughZero, "poison-through-zero", MutantKind::kFault,
     "pytorch/pytorch#101967, vllm-project/vllm#936",
     "hides by adding -inf to the score and multiplies hidden values by 0",
     "hidden keys and values may hold NaN", "hidden-nonfinite"},
    {Mutation::kKvHeadModulo, "kv-head-modulo", MutantKind::kFault, "jax-js#180",
     "reads kv head h mod kv_heads", "query head h reads kv head h / (q_heads / kv_heads)",
     "kv-head-mapping"},
    {Mutation::kMaskTransposed, "mask-transposed", MutantKind::kFault, "",
     "reads the boolean mask at [key, query]", "the boolean mask is [query, key]",
     "mask-transposed"},
    {Mutation::kFiniteRunningMax, "finite-running-max", MutantKind::kFault,
     "flashinfer-ai/flashinfer#4267", "starts the running maximum at -5e4, so lower scores vanish",
     "a softmax is invariant to a shift", "starting-maximum"},
    {Mutation::kBiasDroppedUnderCausal, "bias-dropped-under-causal", MutantKind::kFault, "",
     "ignores the additive bias when causal is on", "bias and causality go together",
     "bias-ignored"},
    {Mutation::kPaddingIgnoredAfterBatch0, "padding-ignored-after-batch-0", MutantKind::kFault, "",
     "applies key lengths to batch item 0 alone", "keys at or beyond the key length are hidden",
     "lengths-ignored"},
    {Mutation::kTileSkipped, "tile-skipped", MutantKind::kFault, "",
     "skips the second tile of keys where a third follows", "every visible key matters",
     "tile-skipped"},
    {Mutation::kLastTileDropped, "last-tile-dropped", MutantKind::kFault, "",
     "leaves out the last tile of keys where it is partial", "every visible key matters",
     "last-tile-dropped"},
    {Mutation::kSumNotRescaled, "sum-not-rescaled", MutantKind::kFault, "",
     "rescales the sum of values and not that of weights when the maximum grows",
     "weights are a softmax", "rescale-missing"},
    {Mutation::kLateRescaleMissing, "late-rescale-missing", MutantKind::kFault, "",
     "rescales nothing from the third tile on", "weights are a softmax", "rescale-missing"},
    {Mutation::kFirstKeyTwice, "first-key-twice", MutantKind::kFault, "", "counts key 0 twice",
     "weights are a softmax", "key-counted-twice"},
    {Mutation::kWindowLeftOneMore, "window-left-one-more", MutantKind::kFault, "",
     "sees one key more at the left end of the window", "W to the left are W + 1 keys",
     "window-left-end"},
    {Mutation::kWindowLeftOneFewer, "window-left-one-fewer", MutantKind::kFault, "",
     "sees one key fewer at the left end of the window", "W to the left are W + 1 keys",
     "window-left-end"},
    {Mutation::kWindowRightOneMore, "window-right-one-more", MutantKind::kFault, "",
     "sees one key more at the right end of the window", "W to the right are W keys",
     "window-right-end"},
    {Mutation::kDiagonalSlid, "diagonal-slid", MutantKind::kFault, "",
     "hides by causality one key too late", "key j is visible if j <= i + offset", "diagonal-slid"},
    {Mutation::kMaskOfBatch0, "mask-of-batch-0", MutantKind::kFault, "",
     "reads the boolean mask of batch item 0 for every item", "masks belong to batch items",
     "batch-0-for-all"},
    {Mutation::kMaskOfHead0, "mask-of-head-0", MutantKind::kFault, "",
     "reads the boolean mask of head 0 for every head", "masks belong to heads", "head-0-for-all"},
    {Mutation::kScaleTwice, "scale-twice", MutantKind::kFault, "", "applies the scale twice",
     "scores are scale * q.k", "scale"},
    {Mutation::kScaleLeftOut, "scale-left-out", MutantKind::kFault, "",
     "leaves out the scale where head_dim is no power of two", "scores are scale * q.k", "scale"},
    {Mutation::kLseBase2, "lse-base-2", MutantKind::kFault, "", "gives the lse to base 2",
     "the lse is natural", "lse-base"},
    {Mutation::kRowUnwritten, "row-unwritten", MutantKind::kFault, "",
     "leaves the last query row unwritten where q_len is no multiple of 4",
     "every output is written", "unwritten"},
    {Mutation::kSumsInBf16, "sums-in-bf16", MutantKind::kFault, "",
     "rounds the sum of values to bf16 after each key", "sums are kept in f32", "numerics"},
    {Mutation::kBiasRounded, "bias-rounded", MutantKind::kFault, "",
     "rounds the additive mask to bf16 in f32 calls", "the bias is of the call's type",
     "input-rounded"},
    {Mutation::kValuesShifted, "values-shifted", MutantKind::kFault, "",
     "reads the value of the key before in the last tile, if that is partial",
     "each key has its value", "value-rows-shifted"},
    {Mutation::kNotNormalised, "not-normalised", MutantKind::kFault, "",
     "does not divide by the sum of weights where one tile holds all keys", "weights are a softmax",
     "not-normalised"},
    {Mutation::kSplitMergedInBase2, "split-merged-in-base-2", MutantKind::kFault, "",
     "works on two halves of the keys and merges them with powers of 2",
     "the result does not depend on splits", "split-merge"},
    {Mutation::kZeros, "zeros", MutantKind::kNull, "", "writes 0 everywhere", "all of it", ""},
    {Mutation::kNan, "nan", MutantKind::kNull, "", "writes NaN everywhere", "all of it", ""},
    {Mutation::kEchoV, "echo-v", MutantKind::kNull, "", "copies V row min(i, kv_len - 1) to row i",
     "all of it", ""},
    {Mutation::kMeanV, "mean-v", MutantKind::kNull, "",
     "averages the visible values without a look at q and k", "weights depend on q and k", ""},
};

}  // namespace

std::span<const Mutant> Mutants() {
  return kMutants;
}

const Mutant* FindMutant(std::string_view id) {
  for (const Mutant& mutant : kMutants) {
    if (mutant.id == id) return &mutant;
  }
  return nullptr;
}

}  // namespace attest
