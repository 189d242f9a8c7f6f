// The table of seeded faults: what can be switched on in the kernel `mutant` (plain_kernel.h), each
// after a publicly reported bug, and the null kernels that compute no attention at all. `attest
// list` prints it, and the mutation gate demands that every entry be killed. Data only.
#ifndef ATTEST_MUTANTS_MUTANTS_H_
#define ATTEST_MUTANTS_MUTANTS_H_

#include <span>
#include <string_view>

namespace attest {

enum class MutantKind {
  kFault,  // correct but for one fault
  kNull,   // no attention at all
};

enum class Mutation {
  kNone,  // the plain correct kernel
  kEmptyRowWithoutGuard,
  kDiagonalTopLeft,
  kMissingRescale,
  kLastTileFull,
  kPoisonThroughZero,
  kKvHeadModulo,
  kMaskTransposed,
  kFiniteRunningMax,
  kBiasDroppedUnderCausal,
  kPaddingIgnoredAfterBatch0,
  kTileSkipped,
  kLastTileDropped,
  kSumNotRescaled,
  kLateRescaleMissing,
  kFirstKeyTwice,
  kWindowLeftOneMore,
  kWindowLeftOneFewer,
  kWindowRightOneMore,
  kDiagonalSlid,
  kMaskOfBatch0,
  kMaskOfHead0,
  kScaleTwice,
  kScaleLeftOut,
  kLseBase2,
  kRowUnwritten,
  kSumsInBf16,
  kBiasRounded,
  kValuesShifted,
  kNotNormalised,
  kSplitMergedInBase2,
  kSoftcapIgnored,
  kSoftcapAfterBias,
  kSinkOmitted,
  kAlibiTopLeft,
  kAlibiOfHead0,
  kPrefixIgnored,
  kDocumentsOfBatch0,
  kBlockMaskOfHead0,
  kDropoutUnscaled,
  kDropoutRenormalised,
  kScoresUncapped,
  kPastAfterNew,
  kPagesOfBatch0,
  kRingFromSlot0,
  kKeyScaleIgnored,
  kQueryLengthsHideKeys,
  kRemainderDropped,
  kPlanShared,
  kSoftcapTailAttended,
  kOneQueryNotCausal,
  kLastRowNotCausal,
  kPastNeedsPresent,
  kMaskAdded,
  kMaskFillerFinite,
  kProductsInF16,
  kSumsInStorageType,
  kZeros,
  kNan,
  kEchoV,
  kMeanV,
};

struct Mutant {
  Mutation mutation;
  std::string_view id;  // the variant: `attest check mutant:ID`
  MutantKind kind;
  std::string_view report;  // where the bug was met in the wild; empty where it was not
  std::string_view does;    // one clause: what it does instead
  std::string_view breaks;  // the promise of contract attest-1 that is broken
  // The cause classes (see judge/explain) that name the fault rightly, separated by |; empty for null
  // kernels.
  std::string_view cause;
};

// Every mutant, faults first. kNone is not among them.
std::span<const Mutant> Mutants();

// nullptr when the id is unknown.
const Mutant* FindMutant(std::string_view id);

}  // namespace attest

#endif  // ATTEST_MUTANTS_MUTANTS_H_
