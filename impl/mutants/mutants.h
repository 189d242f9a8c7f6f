// The table of seeded faults: what can be switched on in the kernel `mutant` (plain.h, blocked.h), each
// after a publicly reported bug or a kind of them, and the null kernels that compute no attention at
// all. `attest list` prints it, and the mutation gate demands that every entry be killed. Data only.
#ifndef ATTEST_MUTANTS_MUTANTS_H_
#define ATTEST_MUTANTS_MUTANTS_H_

#include <span>
#include <string_view>

namespace attest {

// The kernel that a fault lives in.
enum class MutantHome {
  kPlain,    // row by row, tiles of keys (plain.h)
  kBlocked,  // tiles of queries and keys, split keys (blocked.h)
  kNull,     // no attention at all
};

enum class Mutation {
  kNone,  // correct
  // Rows that see no key, and what is left unwritten.
  kEmptyRowWithoutGuard,
  kLseOfEmptyRowPositive,
  kHiddenScoresLowest,
  kRowUnwritten,
  kOutOfNoKeysUnwritten,
  kEmptyQueryTileUnwritten,
  kZeroHeadDimIsEmpty,
  // Causality and the diagonal.
  kDiagonalTopLeft,
  kDiagonalSlid,
  kLastRowNotCausal,
  kOneQueryNotCausal,
  kPastMovesNoDiagonal,
  kTriangleOnEveryTile,
  kDiagonalTileFull,
  kDiagonalTileSkipped,
  kCausalDroppedWithWeights,
  // Windows.
  kWindowLeftOneMore,
  kWindowLeftOneFewer,
  kWindowRightOneMore,
  kWindowRightOneFewer,
  kWindowTileSkipped,
  kWindowIn16Bits,
  kWindowMultiplied,
  kWindowReplacesMask,
  // Lengths, documents, prefixes.
  kPaddingIgnoredAfterBatch0,
  kLengthsDroppedBesideMask,
  kPaddingHidesRows,
  kQueryLengthsHideKeys,
  kLengthTileFull,
  kPrefixIgnored,
  kPrefixOfOneAtLeast,
  kDocumentsOfBatch0,
  // Masks and biases.
  kMaskTransposed,
  kMaskOfBatch0,
  kMaskOfHead0,
  kMaskHeadMajor,
  kMaskBatchByKvHead,
  kMaskTileMisplaced,
  kMaskInverted,
  kBroadcastMaskForQuery0,
  kBroadcastBiasForQuery0,
  kMaskBesideBiasRefused,
  kMaskAdded,
  kMaskAfterSoftmax,
  kMaskFillerFinite,
  kFillersAdded,
  kBlockMaskOfHead0,
  kBiasDroppedUnderCausal,
  kBiasRounded,
  kWideBiasNarrowed,
  kWideBiasMisread,
  // Hidden data.
  kPoisonThroughZero,
  kTailValuesPoisoned,
  // Tiles.
  kLastTileFull,
  kLastTileDropped,
  kTileSkipped,
  kTileTailKept,
  kSoftcapTailAttended,
  kValuesShifted,
  kHeadDimCapped,
  // The online softmax.
  kMissingRescale,
  kSumNotRescaled,
  kValuesNotRescaled,
  kLateRescaleMissing,
  kFiniteRunningMax,
  kConstantSubtracted,
  kMaximumStale,
  kMaximumSharedByRows,
  kHiddenTileGuard,
  kFirstTileHiddenNan,
  kFirstKeyTwice,
  kNotNormalised,
  // Splits and the lse.
  kLseBase2,
  kSplitMergedInBase2,
  kSplitLseInBase2,
  kMergeOfEmptyParts,
  kSplitsFollowThreads,
  // Scores.
  kScaleTwice,
  kScaleLeftOut,
  kSoftcapIgnored,
  kSoftcapAfterBias,
  kSoftcapSkippedInF16,
  kSoftcapInF16,
  kSoftcapAtMost16,
  kScoresUncapped,
  kSinkOmitted,
  kSinkNotInMaximum,
  kSinkInEverySplit,
  kAlibiTopLeft,
  kAlibiOfHead0,
  kAlibiSlopesGeometric,
  kDropoutUnscaled,
  kDropoutRenormalised,
  kDropoutShareOff,
  // Arithmetic.
  kOutputTruncated,
  kSumsInBf16,
  kSumsInStorageType,
  kProductsInF16,
  kScoresScaledLate,
  kScoresClamped,
  // Where vectors are read.
  kKvHeadModulo,
  kKvHeadModuloInWindow,
  kGroupSizePowerOfTwo,
  kInnerStrideOne,
  kValuesReadAsDense,
  kStridedValuesOfBatch0,
  kOffsetIn16Bits,
  kKeyOffsetIn32Bits,
  kPageOffsetIn32Bits,
  kOutOffsetIn32Bits,
  kValueLanesByHeadDim,
  kPresentValuesByHeadDim,
  kPastAfterNew,
  kPresentNewFirst,
  kFirstPresentByPosition,
  kEmptyPastEndsCall,
  kPastNeedsPresent,
  kPagesOfBatch0,
  kPageTailAttended,
  kPageOfThePrevious,
  kRingFromSlot0,
  kPackedSingleQuery,
  kKeyScaleIgnored,
  // Threads and state.
  kRemainderDropped,
  kPlanShared,
  kScaleOfLastCall,
  kLengthsOfLastCall,
  kFirstCallDiffers,
  // The backward pass; the forward pass is right.
  kDeltaOmittedInLastRow,
  kQueryGradientUnscaled,
  kLastRowAddsNothing,
  kGroupGradientOfLastHead,
  kLseInBf16,
  kSoftcapSlopeOmitted,
  kBackwardMaskIgnored,
  kBackwardBlocksTransposed,
  kBackwardCausalIgnored,
  kBackwardLengthsIgnored,
  kBackwardAlibiIgnored,
  kBackwardDropoutUnscaled,
  kBackwardDropoutOfHead0,
  kBlindRowGradientNan,
  kHiddenPairTimesZero,
  kPaddedGradientsUnwritten,
  kDeltasWrittenOverLse,
  kDeltasOfLastCall,
  kPartsOfThreadsRounded,
  kBiasGradientOfLastHead,
  kBiasGradientOfLastItem,
  kBiasGradientScaled,
  kSinkGradientNegated,
  kPackedDoutOfItem0,
  // Null kernels.
  kZeros,
  kNan,
  kEchoV,
  kMeanV,
};

struct Mutant {
  Mutation mutation;
  std::string_view id;  // the variant: `attest check mutant:ID`
  MutantHome home;
  // What kind of bug it is, in one word: EMPTY, DROPPED, TAIL, POISON, FORM, BCAST, ONLINE, SPLIT,
  // WINDOW, STRIDE, CAUSAL, FILL, HEADS, CACHE, SCALE, RACE, RANGE, INDEX, CAP, ALIBI, ZERO, CHUNK,
  // SINK, DV, DROPOUT, STALE, DTYPE, UNINIT, LABEL, GRAD; NULL for null kernels.
  std::string_view kind;
  std::string_view report;  // where the bug was met in the wild; empty where it was not
  std::string_view does;    // one clause: what it does instead
  std::string_view breaks;  // the promise of contract attest-1 that is broken
  // The cause classes (see judge/explain) that name the fault rightly, separated by |; empty for null
  // kernels.
  std::string_view cause;

  bool is_null() const { return home == MutantHome::kNull; }
  // Its forward pass is right; the fault lies in the backward pass alone.
  bool is_of_backward() const { return kind == "GRAD"; }
};

// Every mutant, faults first. kNone is not among them.
std::span<const Mutant> Mutants();

// nullptr when the id is unknown.
const Mutant* FindMutant(std::string_view id);

}  // namespace attest

#endif  // ATTEST_MUTANTS_MUTANTS_H_
