#include "impl/mutants/mutants.h"

namespace attest {
namespace {

constexpr Mutant kMutants[] = {
    {Mutation::kEmptyRowWithoutGuard, "empty-row-without-guard", MutantKind::kFault,
     "pytorch/pytorch#103749", "divides by the sum of weights even where a row saw no key",
     "an empty row is zero"},
    {Mutation::kDiagonalTopLeft, "diagonal-top-left", MutantKind::kFault,
     "Dao-AILab/flash-attention#282", "ignores the diagonal offset and starts at the top left",
     "row i stands at key i + offset"},
    {Mutation::kMissingRescale, "missing-rescale", MutantKind::kFault, "paiml/aprender#2753",
     "keeps sums as they are when the running maximum grows", "weights are a softmax"},
    {Mutation::kLastTileFull, "last-tile-full", MutantKind::kFault, "jax-ml/jax#27224",
     "fills up a last partial tile with keys of score 0 and value 0",
     "keys beyond kv_len do not exist"},
    {Mutation::kPoisonThroughZero, "poison-through-zero", MutantKind::kFault,
     "pytorch/pytorch#101967, vllm-project/vllm#936",
     "hides by adding -inf to the score and multiplies hidden values by 0",
     "hidden keys and values may hold NaN"},
    {Mutation::kKvHeadModulo, "kv-head-modulo", MutantKind::kFault, "jax-js#180",
     "reads kv head h mod kv_heads", "query head h reads kv head h / (q_heads / kv_heads)"},
    {Mutation::kMaskTransposed, "mask-transposed", MutantKind::kFault, "",
     "reads the boolean mask at [key, query]", "the boolean mask is [query, key]"},
    {Mutation::kFiniteRunningMax, "finite-running-max", MutantKind::kFault,
     "flashinfer-ai/flashinfer#4267", "starts the running maximum at -5e4, so lower scores vanish",
     "a softmax is invariant to a shift"},
    {Mutation::kBiasDroppedUnderCausal, "bias-dropped-under-causal", MutantKind::kFault, "",
     "ignores the additive bias when causal is on", "bias and causality go together"},
    {Mutation::kPaddingIgnoredAfterBatch0, "padding-ignored-after-batch-0", MutantKind::kFault, "",
     "applies key lengths to batch item 0 alone", "keys at or beyond the key length are hidden"},
    {Mutation::kZeros, "zeros", MutantKind::kNull, "", "writes 0 everywhere", "all of it"},
    {Mutation::kNan, "nan", MutantKind::kNull, "", "writes NaN everywhere", "all of it"},
    {Mutation::kEchoV, "echo-v", MutantKind::kNull, "", "copies V row min(i, kv_len - 1) to row i",
     "all of it"},
    {Mutation::kMeanV, "mean-v", MutantKind::kNull, "",
     "averages the visible values without a look at q and k", "weights depend on q and k"},
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
