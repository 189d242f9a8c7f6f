// The table of the built-in models, and that of the seeded faults of the model floor: what can be switched on in the models of this
// folder, each a mistake that people make one step around the attention kernel. Config::fault
// switches one on; each is one condition at one place of the code. `model-mutant:ID` is the model
// that has it, and the gate of attest check-model demands that every one be killed. Data only.
#ifndef ATTEST_TRANSFORMER_FAULTS_H_
#define ATTEST_TRANSFORMER_FAULTS_H_

#include <span>
#include <string_view>

namespace attest::transformer {

enum class Fault {
  kNone,  // correct
  // What a token may see.
  kTriangleTransposed,
  kDiagonalStrict,
  kDiagonalSlid,
  kCausalityDroppedBesidePadding,
  kMaskInverted,
  kPaddingVisible,
  kLeftPaddingVisible,
  kPaddingOfItem0,
  kEncoderSeesOnlyThePast,
  kCrossAttentionCausal,
  kCrossPaddingVisible,
  kWindowOneMore,
  // Positions.
  kPositionsIgnoreLeftPadding,
  kCachePositionOffByOne,
  kPositionsRestart,
  kPositionsOfItem0,
  kLearnedPositionsWrap,
  kRopePairingMixed,
  kRopeOnValues,
  kRopeForgetsKeys,
  kAlibiTopLeft,
  // Layers.
  kNormAfter,
  kNormOverBatch,
  kResidualDropped,
  kHeadsSplitWrongly,
  kHeadsMergedWrongly,
  kProjectedBeforeMerge,
  kScaleMissing,
  kScaleOfModelDim,
  kDropoutInEval,
  kTiedEmbeddingUnscaled,
  kTiedEmbeddingMisread,
  // The cache.
  kCacheNotCleared,
  kCacheLastTokenTwice,
  kCacheOfItem0,
  kReorderForgotten,
  kReorderOfKeysAlone,
  kReorderInPlace,
  kRingEvictsWrongSlot,
  kPagesOfItem0,
  kMemoryOfLastRequest,
  // The batcher.
  kTargetNotShifted,
  kTargetShiftedTwice,
  kTargetShiftedBackwards,
  kShiftAcrossDocuments,
  kTargetWrapsAround,
  kPaddingInLoss,
  kStreamWithoutEnds,
  kStreamLosesEdges,
  kChunksLoseTwo,
};

// The built-in model that a fault lives in.
enum class Base {
  kDecoder,         // RoPE, RMS norm before, SwiGLU, grouped heads
  kGpt,             // a decoder of learned positions, layer norm before, GELU, tied embedding
  kAlibi,           // a decoder of ALiBi
  kWindowed,        // a decoder of RoPE that sees the last tokens alone, over a ring
  kPaged,           // kDecoder over a paged cache
  kEncoder,         // sinusoidal positions, layer norm after, GELU
  kEncoderDecoder,  // both, with cross-attention
  kBatcher,         // kGpt with a faulty batcher
  kStream,          // kGpt whose batcher joins documents to one stream, of which it drops the end
  kChunks,  // kGpt whose batcher cuts documents, end to end, into rows that each stand alone
};

// A built-in model without a fault.
struct Variant {
  std::string_view id;  // `attest check-model model:ID`
  Base base;
  std::string_view is;  // one clause: what it is made of
};

std::span<const Variant> Variants();

struct Mutant {
  Fault fault;
  std::string_view id;  // the variant: `attest check-model model-mutant:ID`
  Base base;
  std::string_view report;  // where the like was met in the wild; empty where it was not
  std::string_view does;    // one clause: what it does instead
  std::string_view breaks;  // the claim that is broken
};

// Every mutant; kNone is not among them.
std::span<const Mutant> Mutants();

// nullptr when the id is unknown.
const Mutant* FindMutant(std::string_view id);

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_FAULTS_H_
