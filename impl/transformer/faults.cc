#include "impl/transformer/faults.h"

namespace attest::transformer {
namespace {

// "In a step" is where a cache already holds something. Inference engines have code of its own for
// that, and a layer may be wrong there that is right in prefill. A layer that is wrong everywhere
// is another model: only a second opinion sees it.
constexpr Mutant kMutants[] = {
    {Fault::kTriangleTransposed, "triangle-transposed", Base::kDecoder, "LLMs-from-scratch#1062",
     "lets a token see itself and those after it", "a token sees itself and those before it"},
    {Fault::kDiagonalStrict, "diagonal-strict", Base::kDecoder, "",
     "attends the cache before the token of a step is in it", "a token sees itself"},
    {Fault::kDiagonalSlid, "diagonal-slid", Base::kDecoder, "", "lets a token see the next one",
     "no token sees a later one"},
    {Fault::kCausalityDroppedBesidePadding, "causality-dropped-beside-padding", Base::kDecoder,
     "keras-team/keras#23038", "drops causality in a batch that has padding",
     "no token sees a later one"},
    {Fault::kMaskInverted, "mask-inverted", Base::kEncoder, "nishide-dev/unturtle#56",
     "reads the padding mask as its opposite", "tokens see tokens, and no padding"},
    {Fault::kPaddingVisible, "padding-visible", Base::kEncoder, "deepspeedai/DeepSpeed#1466",
     "lets tokens see padding", "padding is seen by no token"},
    {Fault::kLeftPaddingVisible, "left-padding-visible", Base::kDecoder, "",
     "trusts causality to hide padding, on the left, too", "padding is seen by no token"},
    {Fault::kPaddingOfItem0, "padding-of-item-0", Base::kEncoder, "line/lighthouse#77",
     "hides from every sequence what is padding in the first", "lengths belong to sequences"},
    {Fault::kEncoderSeesOnlyThePast, "encoder-sees-only-the-past", Base::kEncoder, "",
     "is causal in the encoder", "a token of an encoder sees all tokens"},
    {Fault::kCrossAttentionCausal, "cross-attention-causal", Base::kEncoderDecoder,
     "NVIDIA/TransformerEngine#629", "is causal in cross-attention in a step",
     "a token sees all of the source"},
    {Fault::kCrossPaddingVisible, "cross-padding-visible", Base::kEncoderDecoder, "",
     "lets the decoder see padding of the source", "padding is seen by no token"},
    {Fault::kWindowOneMore, "window-one-more", Base::kWindowed, "huggingface/transformers#39408",
     "sees one token more than the window has, where there is no cache",
     "a window of W shows W tokens"},
    {Fault::kPositionsIgnoreLeftPadding, "positions-ignore-left-padding", Base::kGpt, "",
     "counts positions from the beginning of the padding", "the first token stands at position 0"},
    {Fault::kCachePositionOffByOne, "cache-position-off-by-one", Base::kGpt, "",
     "counts positions from 1 in a step", "a step goes on where the cache ends"},
    {Fault::kPositionsRestart, "positions-restart", Base::kDecoder, "",
     "counts positions from 0 in every step", "a step goes on where the cache ends"},
    {Fault::kPositionsOfItem0, "positions-of-item-0", Base::kGpt, "",
     "gives every sequence of a step the position of the first", "positions belong to sequences"},
    {Fault::kLearnedPositionsWrap, "learned-positions-wrap", Base::kGpt, "",
     "reads the learned positions in a step as if there were but half of them",
     "each position has a vector of its own"},
    {Fault::kRopePairingMixed, "rope-pairing-mixed", Base::kDecoder, "",
     "pairs the components of RoPE the other way in a step", "prefill and steps rotate alike"},
    {Fault::kRopeOnValues, "rope-on-values", Base::kDecoder, "", "rotates values, too",
     "with RoPE only distances matter"},
    {Fault::kRopeForgetsKeys, "rope-forgets-keys", Base::kDecoder, "",
     "caches keys unrotated in a step", "prefill and steps rotate alike"},
    {Fault::kAlibiTopLeft, "alibi-top-left", Base::kAlibi, "vllm-project/vllm#945",
     "measures distances of ALiBi from the first row of a step", "a row's distance to itself is 0"},
    {Fault::kNormAfter, "norm-after", Base::kDecoder, "",
     "normalises after the residual instead of before the sub-layer, in a step",
     "prefill and steps compute one function"},
    {Fault::kNormOverBatch, "norm-over-batch", Base::kEncoder, "",
     "normalises by mean and variance of the whole batch, padding included",
     "a token is normalised by itself"},
    {Fault::kResidualDropped, "residual-dropped", Base::kGpt, "",
     "forgets the residual of the feed-forward in a step",
     "prefill and steps compute one function"},
    {Fault::kHeadsSplitWrongly, "heads-split-wrongly", Base::kDecoder, "jax-js#180",
     "takes every heads-th component for a head of queries in a step",
     "heads lie one behind the other"},
    {Fault::kHeadsMergedWrongly, "heads-merged-wrongly", Base::kDecoder, "",
     "interleaves the heads before Wo in a step", "heads lie one behind the other"},
    {Fault::kProjectedBeforeMerge, "projected-before-merge", Base::kGpt, "",
     "multiplies every head by the first head's rows of Wo in a step",
     "each head has its own rows of Wo"},
    {Fault::kScaleMissing, "scale-missing", Base::kDecoder, "attorch#14",
     "leaves the scale out in a step", "scores are divided by sqrt(head_dim)"},
    {Fault::kScaleOfModelDim, "scale-of-model-dim", Base::kGpt, "Graylab/DL4Proteins-notebooks#12",
     "divides scores by sqrt(dim) in a step", "scores are divided by sqrt(head_dim)"},
    {Fault::kDropoutInEval, "dropout-in-eval", Base::kGpt, "huggingface/pytorch-image-models#1978",
     "drops out whatever the mode", "without training nothing is dropped"},
    {Fault::kTiedEmbeddingUnscaled, "tied-embedding-unscaled", Base::kGpt, "",
     "does not scale the embedding in a step", "prefill and steps compute one function"},
    {Fault::kTiedEmbeddingMisread, "tied-embedding-misread", Base::kGpt, "",
     "reads the tied embedding as [dim, vocab] in a step", "the head is the embedding, transposed"},
    {Fault::kCacheNotCleared, "cache-not-cleared", Base::kDecoder, "",
     "opens a cache with what the last one held", "a request sees nothing of another"},
    {Fault::kCacheLastTokenTwice, "cache-last-token-twice", Base::kDecoder, "",
     "caches the last token of the prefill again in the first step",
     "a cache holds each token once"},
    {Fault::kCacheOfItem0, "cache-of-item-0", Base::kDecoder, "",
     "reads keys of the first sequence for all in a step", "caches belong to sequences"},
    {Fault::kReorderForgotten, "reorder-forgotten", Base::kDecoder, "",
     "leaves the cache as it is when beams are reordered", "a beam goes on from its parent"},
    {Fault::kReorderOfKeysAlone, "reorder-of-keys-alone", Base::kDecoder, "",
     "reorders keys and leaves values when beams are reordered", "a beam goes on from its parent"},
    {Fault::kReorderInPlace, "reorder-in-place", Base::kDecoder, "",
     "reorders beams one by one in place, over parents that are yet to be read",
     "a beam goes on from its parent"},
    {Fault::kRingEvictsWrongSlot, "ring-evicts-wrong-slot", Base::kWindowed,
     "huggingface/transformers#37574", "overwrites the second oldest token of a full ring",
     "a ring forgets the oldest token"},
    {Fault::kPagesOfItem0, "pages-of-item-0", Base::kPaged, "",
     "reads the page table of the first sequence for all", "pages belong to sequences"},
    {Fault::kMemoryOfLastRequest, "memory-of-last-request", Base::kEncoderDecoder, "",
     "generates from the source of the request before", "a request sees nothing of another"},
    {Fault::kTargetNotShifted, "target-not-shifted", Base::kBatcher, "",
     "gives each token itself as target", "the target is the next token"},
    {Fault::kTargetShiftedTwice, "target-shifted-twice", Base::kBatcher, "",
     "gives the token after the next as target", "the target is the next token"},
    {Fault::kTargetShiftedBackwards, "target-shifted-backwards", Base::kBatcher, "",
     "gives the previous token as target", "the target is the next token"},
    {Fault::kShiftAcrossDocuments, "shift-across-documents", Base::kBatcher, "",
     "makes the last token of a document predict the first of the next",
     "documents know nothing of each other"},
    {Fault::kTargetWrapsAround, "target-wraps-around", Base::kBatcher, "",
     "makes the last token of a row predict its first", "the last token has no target"},
    {Fault::kPaddingInLoss, "padding-in-loss", Base::kBatcher, "", "weighs padding as tokens",
     "padding has no weight in the loss"},
    {Fault::kStreamWithoutEnds, "stream-without-ends", Base::kStream, "",
     "joins documents to a stream and leaves out the mark between them",
     "a document ends before the next begins"},
    {Fault::kStreamLosesEdges, "stream-loses-edges", Base::kStream, "",
     "gives the last token of each row of a stream no target", "each token is learnt once"},
    {Fault::kChunksLoseTwo, "chunks-lose-two", Base::kChunks, "",
     "gives the last two tokens of each row no target", "a row loses one target at its edge"},
};

constexpr Variant kVariants[] = {
    {"decoder", Base::kDecoder, "a decoder of RoPE, RMS norm before, SwiGLU and grouped heads"},
    {"gpt", Base::kGpt,
     "a decoder of learned positions, layer norm before, GELU and a tied embedding"},
    {"stream", Base::kStream, "gpt, which learns from one stream of documents without its end"},
    {"chunks", Base::kChunks,
     "gpt, which learns from documents end to end, cut into rows that lose a target at each edge"},
    {"alibi", Base::kAlibi, "a decoder of ALiBi"},
    {"windowed", Base::kWindowed, "a decoder of RoPE that sees the last tokens alone, over a ring"},
    {"paged", Base::kPaged, "the decoder over a paged cache"},
    {"encoder", Base::kEncoder, "an encoder of sinusoidal positions, layer norm after and GELU"},
    {"encoder-decoder", Base::kEncoderDecoder, "both, with cross-attention"},
};

}  // namespace

std::span<const Variant> Variants() {
  return kVariants;
}

std::span<const Mutant> Mutants() {
  return kMutants;
}

const Mutant* FindMutant(std::string_view id) {
  for (const Mutant& mutant : kMutants) {
    if (mutant.id == id) return &mutant;
  }
  return nullptr;
}

}  // namespace attest::transformer
