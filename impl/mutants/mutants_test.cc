#include "impl/mutants/mutants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/promises.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/attention/testing/repetitions.h"
#include "impl/mutants/testing.h"

namespace attest {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsNan;

// The two kernels without a fault.
constexpr std::string_view kCorrect[] = {"", "blocked"};

TEST(CorrectKernelsTest, StayWithinTheWorstCaseBound) {
  for (const std::string_view id : kCorrect) {
    const DirectKernel kernel = Make(id);
    std::mt19937_64 random(8);
    for (int round = 0; round < Repetitions(400); ++round) {
      const Problem p = RandomProblem(random, DType::kF32);
      Inputs inputs = RandomInputs(random, p);
      if (round % 2 == 1) PoisonHidden(p, inputs);
      if (round % 3 == 0) {
        for (double& value : inputs.k.values) value = RoundTo(DType::kF32, value * 3e4);
      }
      ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << id << " round " << round;
    }
  }
}

TEST(CorrectKernelsTest, EveryFeatureStaysWithinTheWorstCaseBound) {
  for (const std::string_view id : kCorrect) {
    const DirectKernel kernel = Make(id);
    std::mt19937_64 random(15);
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      for (int round = 0; round < Repetitions(100); ++round) {
        Problem p = RandomProblem(random, dtype);
        AddRandomFeatures(random, p);
        Inputs inputs = RandomInputs(random, p);
        if (round % 2 == 1 && !p.want_scores) PoisonHidden(p, inputs);
        ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << id << " round " << round;
      }
    }
  }
}

// The faults too, as far as they do not live in tiles at the end of the keys, must read nothing that
// no storage holds.
TEST(CorrectKernelsTest, EveryStorageGivesTheSameBits) {
  for (const std::string_view id :
       {"", "blocked", "padding-ignored-after-batch-0", "kv-head-modulo"}) {
    const DirectKernel kernel = Make(id);
    const bool has_fault = std::ranges::find(kCorrect, id) == std::end(kCorrect);
    std::mt19937_64 random(16);
    for (int round = 0; round < Repetitions(100); ++round) {
      Problem p = RandomProblem(random, DType::kF32);
      AddRandomFeatures(random, p);
      if (has_fault) p.key_lengths.reset();
      ASSERT_TRUE(KeepsBitsInEveryStorage(kernel, p, RandomInputs(random, p)))
          << id << " round " << round;
    }
  }
}

TEST(CorrectKernelsTest, KeepTheirPromises) {
  for (const std::string_view id : kCorrect) {
    EXPECT_TRUE(KeepsItsPromises(Make(id), Repetitions(12))) << id;
  }
}

TEST(PlainKernelTest, BrokenPromisesAreNoticed) {
  for (const std::string_view id :
       {"poison-through-zero", "last-tile-full", "kv-head-modulo", "diagonal-top-left"}) {
    EXPECT_FALSE(KeepsItsPromises(Make(id), 60)) << id;
  }
}

TEST(PlainKernelTest, UnknownVariantIsRefused) {
  const auto kernel = DirectKernel::Create(MutantKernelTable(), {{"variant", "none-such"}});
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error(), "there is no mutant \"none-such\"; attest list names them all");
}

TEST(MutantsTest, IdsAreUniqueAndFound) {
  std::set<std::string_view> ids;
  int faults = 0;
  for (const Mutant& mutant : Mutants()) {
    EXPECT_TRUE(ids.insert(mutant.id).second) << mutant.id;
    EXPECT_EQ(FindMutant(mutant.id), &mutant);
    faults += mutant.is_null() ? 0 : 1;
    EXPECT_EQ(mutant.cause.empty(), mutant.is_null()) << mutant.id;
  }
  EXPECT_GE(faults, 84);
  EXPECT_EQ(FindMutant(""), nullptr);
  EXPECT_EQ(FindMutant("blocked"), nullptr);  // is no mutant
}

// A kind met once could be killed by luck. LABEL comes with models, of which one fault is here.
TEST(MutantsTest, EveryKindOccursTwice) {
  std::map<std::string_view, int> kinds;
  for (const Mutant& mutant : Mutants()) ++kinds[mutant.kind];
  for (const std::string_view kind :
       {"EMPTY",   "DROPPED", "TAIL",   "POISON", "FORM",  "BCAST", "ONLINE", "SPLIT",
        "WINDOW",  "STRIDE",  "CAUSAL", "FILL",   "HEADS", "CACHE", "SCALE",  "RACE",
        "RANGE",   "INDEX",   "CAP",    "ALIBI",  "ZERO",  "CHUNK", "SINK",   "DV",
        "DROPOUT", "STALE",   "DTYPE",  "UNINIT", "GRAD",  "NULL"}) {
    EXPECT_GE(kinds[kind], 2) << kind;
  }
  EXPECT_EQ(kinds.size(), 31u) << "a kind that the list above does not know, beside LABEL";
}

// The form of call in which a fault of storage or strides shows; the others show in any.
DirectForm FormFor(Mutation mutation) {
  switch (mutation) {
    case Mutation::kPastAfterNew:
    case Mutation::kPastMovesNoDiagonal:
    case Mutation::kOneQueryNotCausal:
      return {DirectLayout::kDense, DirectStorage::kPast};
    case Mutation::kPresentValuesByHeadDim:
    case Mutation::kPresentNewFirst:
      return {DirectLayout::kDense, DirectStorage::kPast, true};
    case Mutation::kFirstPresentByPosition:
      return {DirectLayout::kDense, DirectStorage::kPlain, true};
    case Mutation::kPagesOfBatch0:
    case Mutation::kPageTailAttended:
    case Mutation::kPageOfThePrevious:
      return {DirectLayout::kDense, DirectStorage::kPages};
    case Mutation::kRingFromSlot0:
      return {DirectLayout::kDense, DirectStorage::kRing};
    case Mutation::kInnerStrideOne:
    case Mutation::kValuesReadAsDense:
    case Mutation::kStridedValuesOfBatch0:
      return {DirectLayout::kGapped};
    default:
      return {};
  }
}

// Whether one call at a time, on one thread, shows nothing of the fault.
bool NeedsThreads(Mutation mutation) {
  return mutation == Mutation::kRemainderDropped || mutation == Mutation::kPlanShared ||
         mutation == Mutation::kSplitsFollowThreads;
}

// Whether no random problem has what shows the fault: 64 queries, a head_dim above 64, packed
// sequences, two calls of the same sizes, values of other families, tensors of more than 2^31 elements.
bool NeedsItsOwnProblem(Mutation mutation) {
  static const std::set<Mutation> kOwn = {
      Mutation::kSoftcapTailAttended,   Mutation::kOneQueryNotCausal,
      Mutation::kPastNeedsPresent,      Mutation::kMaskFillerFinite,
      Mutation::kWindowIn16Bits,        Mutation::kHeadDimCapped,
      Mutation::kConstantSubtracted,    Mutation::kHiddenTileGuard,
      Mutation::kSinkNotInMaximum,      Mutation::kOffsetIn16Bits,
      Mutation::kPackedSingleQuery,     Mutation::kScaleOfLastCall,
      Mutation::kLengthsOfLastCall,     Mutation::kFirstCallDiffers,
      Mutation::kPrefixOfOneAtLeast,    Mutation::kScoresClamped,
      Mutation::kMaskBesideBiasRefused, Mutation::kProductsInF16,
      Mutation::kKeyOffsetIn32Bits,     Mutation::kPageOffsetIn32Bits,
      Mutation::kOutOffsetIn32Bits,     Mutation::kEmptyPastEndsCall};
  return kOwn.contains(mutation);
}

// A random problem with the mutation in mind: one in four is of bf16, one in four of f16.
Problem ProblemFor(std::mt19937_64& random, int round, const DirectForm& form) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kF32, DType::kBF16};
  Problem p = RandomProblem(random, kDTypes[round % 4]);
  if (round % 3 != 0) AddRandomFeatures(random, p);
  if (form.storage == DirectStorage::kPages) p.want_scores.reset();
  if (form.want_present) p.fp8.reset();
  return p;
}

// Each fault shows on some random problems, and a null kernel on nearly all.
TEST(MutantsTest, EachDiffersFromTheCorrectKernel) {
  for (const Mutant& mutant : Mutants()) {
    if (NeedsThreads(mutant.mutation) || NeedsItsOwnProblem(mutant.mutation)) continue;
    if (mutant.is_of_backward()) continue;  // see backward_test.cc
    const DirectKernel correct = Make(mutant.home == MutantHome::kBlocked ? "blocked" : "");
    const DirectKernel kernel = Make(mutant.id);
    const DirectForm form = FormFor(mutant.mutation);
    const int wanted = mutant.is_null() ? 40 : 3;
    std::mt19937_64 random(9);
    int differing = 0;
    for (int round = 0; round < 600 && differing < wanted; ++round) {
      const Problem p = ProblemFor(random, round, form);
      Inputs inputs = RandomInputs(random, p);
      if (mutant.kind == "POISON") PoisonHidden(p, inputs);
      if (mutant.mutation == Mutation::kFiniteRunningMax) {
        for (double& value : inputs.k.values) value *= 3e5;
      }
      differing += SameBits(correct.Run(p, inputs, form), kernel.Run(p, inputs, form)) ? 0 : 1;
    }
    EXPECT_EQ(differing, wanted) << mutant.id;
  }
}

TEST(PlainKernelTest, EveryThreadCountGivesTheSameBitsButWithoutTheRemainder) {
  std::mt19937_64 random(9);
  int differing = 0;
  for (int round = 0; round < 50; ++round) {
    const Problem p = RandomProblem(random, DType::kF32);
    const Inputs inputs = RandomInputs(random, p);
    const DirectResult one = Make().Run(p, inputs);
    for (const int threads : {0, 2, 3, 7}) {
      ASSERT_TRUE(SameBits(one, Make("", threads).Run(p, inputs))) << "round " << round;
    }
    ASSERT_TRUE(SameBits(one, Make("remainder-dropped").Run(p, inputs)));
    differing += SameBits(one, Make("remainder-dropped", 7).Run(p, inputs)) ? 0 : 1;
  }
  EXPECT_GE(differing, 10);
}

TEST(MutantsTest, ASharedPlanIsThatOfAnotherCallAtTheSameTime) {
  const DirectKernel kernel = Make("plan-shared");
  Small s(1, 1, 2);
  s.inputs.k.values = {1, 3};
  Problem other = s.problem;
  other.scale = 3;
  EXPECT_TRUE(SameBits(kernel.Run(s.problem, s.inputs), Make().Run(s.problem, s.inputs)));
  int differing = 0;
  const auto run = [&](const Problem& problem) {
    return !SameBits(kernel.Run(problem, s.inputs), Make().Run(problem, s.inputs));
  };
  for (int round = 0; round < 20 && differing == 0; ++round) {
    std::atomic<int> wrong = 0;
    {
      std::jthread first([&] { wrong += run(s.problem); });
      std::jthread second([&] { wrong += run(other); });
    }
    differing += wrong;
  }
  EXPECT_GT(differing, 0);
}

TEST(MutantsTest, EmptyRowWithoutGuardIsNan) {
  Small s(1, 1, 2);
  s.problem.key_lengths = {{0}};
  EXPECT_EQ(s.Out(""), 0);
  EXPECT_THAT(s.Out("empty-row-without-guard"), IsNan());
  s.problem.key_lengths = {{1}};
  EXPECT_EQ(s.Out("empty-row-without-guard"), 1);
}

TEST(MutantsTest, DiagonalTopLeftIgnoresTheOffset) {
  Small s(1, 1, 2);
  s.problem.causal = true;
  s.problem.diagonal_offset = {1};
  EXPECT_EQ(s.Out(""), 1.5);
  EXPECT_EQ(s.Out("diagonal-top-left"), 1);
}

TEST(MutantsTest, MissingRescaleNeedsALaterMaximum) {
  Small s(1, 1, 5);
  EXPECT_EQ(s.Out("missing-rescale"), s.Out(""));
  s.inputs.k.values = {0, 0, 0, 0, 100};
  EXPECT_EQ(s.Out(""), 5);
  EXPECT_EQ(s.Out("missing-rescale"), 3);  // (1 + 2 + 3 + 4 + 5) / 5
}

TEST(MutantsTest, LastTileFullNeedsAPartialTile) {
  Small s(1, 1, 4);
  EXPECT_EQ(s.Out("last-tile-full"), s.Out(""));
  Small partial(1, 1, 5);
  EXPECT_EQ(partial.Out(""), 3);
  EXPECT_EQ(partial.Out("last-tile-full"), 15.0 / 8);
}

TEST(MutantsTest, PoisonThroughZeroLetsNanThroughOnly) {
  Small s(1, 1, 2);
  s.problem.key_lengths = {{1}};
  s.inputs.v.values = {1, 1e30};
  EXPECT_EQ(s.Out("poison-through-zero"), 1);
  s.inputs.v.values[1] = NAN;
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_THAT(s.Out("poison-through-zero"), IsNan());
  s.inputs.v.values[1] = 2;
  s.inputs.k.values[1] = NAN;
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_THAT(s.Out("poison-through-zero"), IsNan());
}

TEST(MutantsTest, KvHeadModuloMixesUpGroups) {
  Small s(1, 1, 1);
  s.problem.q_heads = 4;
  s.problem.kv_heads = 2;
  s.inputs = {Array(s.problem.QShape()), Array(s.problem.KShape()), Array(s.problem.VShape()), {}};
  s.inputs.v.values = {10, 20};
  EXPECT_EQ(s.Out("", 0, 1), 10);
  EXPECT_EQ(s.Out("kv-head-modulo", 0, 1), 20);
  EXPECT_EQ(s.Out("kv-head-modulo", 0, 3), 20);
}

TEST(MutantsTest, MaskTransposedSwapsItsIndices) {
  Small s(1, 2, 2);
  s.problem.mask = BitPlane{{1, 1, 2, 2}, 2, {1, 1, 0, 1}};
  EXPECT_EQ(s.Out("", 0, 0, 0), 1.5);
  EXPECT_EQ(s.Out("mask-transposed", 0, 0, 0), 1);
  EXPECT_EQ(s.Out("mask-transposed", 0, 0, 1), 1.5);
}

TEST(MutantsTest, FiniteRunningMaxLosesLowScores) {
  Small s(1, 1, 2);
  s.inputs.k.values = {-4e4, -4e4};
  EXPECT_EQ(s.Out("finite-running-max"), 1.5);
  s.inputs.k.values = {-6e4, -6e4};
  EXPECT_EQ(s.Out(""), 1.5);
  EXPECT_EQ(s.Out("finite-running-max"), 0);
}

TEST(MutantsTest, BiasDroppedUnderCausal) {
  Small s(1, 1, 2);
  s.problem.bias = BitPlane{{1, 1, 1, 2}, 2, {1, 0}};
  s.inputs.bias = Array({1, 1, 1, 2});
  s.inputs.bias.values = {0, -INFINITY};
  EXPECT_EQ(s.Out("bias-dropped-under-causal"), 1);
  s.problem.causal = true;
  s.problem.diagonal_offset = {1};
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_EQ(s.Out("bias-dropped-under-causal"), 1.5);
}

TEST(MutantsTest, PaddingIgnoredAfterBatch0) {
  Small s(2, 1, 2);
  s.problem.key_lengths = {{1, 1}};
  EXPECT_EQ(s.Out("padding-ignored-after-batch-0", 0), 1);
  EXPECT_EQ(s.Out("", 1), 3);
  EXPECT_EQ(s.Out("padding-ignored-after-batch-0", 1), 3.5);
}

// Keys 0 .. kv_len - 1 all alike, values 1, 2, ...: out is their mean.
TEST(MutantsTest, TilesAndKeysGoMissing) {
  Small s(1, 1, 9);
  EXPECT_EQ(s.Out(""), 5);
  EXPECT_FLOAT_EQ(s.Out("tile-skipped"), (1 + 2 + 3 + 4 + 9) / 5.0);
  EXPECT_EQ(s.Out("last-tile-dropped"), 4.5);
  EXPECT_FLOAT_EQ(s.Out("first-key-twice"), 4.6);
  Small two_tiles(1, 1, 8);
  EXPECT_EQ(two_tiles.Out("tile-skipped"), two_tiles.Out(""));
  EXPECT_EQ(two_tiles.Out("last-tile-dropped"), two_tiles.Out(""));
}

TEST(MutantsTest, RescalesGoMissingInPart) {
  Small s(1, 1, 5);
  EXPECT_EQ(s.Out("sum-not-rescaled"), s.Out(""));
  s.inputs.k.values = {0, 0, 0, 0, 100};
  EXPECT_EQ(s.Out("sum-not-rescaled"), 1);  // 5 / (4 + 1)
  EXPECT_EQ(s.Out("late-rescale-missing"), 5);
  Small three(1, 1, 9);
  three.inputs.k.values = {0, 0, 0, 0, 0, 0, 0, 0, 100};
  EXPECT_EQ(three.Out("late-rescale-missing"), 5);  // the mean of 1 .. 9
}

TEST(MutantsTest, WindowsAndDiagonalsAreOffByOne) {
  Small s(1, 1, 5);
  s.problem.diagonal_offset = {2};
  s.problem.window = {1, 0};
  EXPECT_EQ(s.Out(""), 2.5);
  EXPECT_EQ(s.Out("window-left-one-more"), 2);
  EXPECT_EQ(s.Out("window-left-one-fewer"), 3);
  EXPECT_EQ(s.Out("window-right-one-more"), 3);
  s.problem.window = {};
  s.problem.causal = true;
  EXPECT_EQ(s.Out("diagonal-slid"), 2.5);
}

TEST(MutantsTest, MasksOfTheFirstServeAll) {
  Small s(2, 1, 2);
  s.problem.mask = BitPlane{{2, 1, 1, 2}, 4, {1, 0, 0, 1}};
  EXPECT_EQ(s.Out("", 1), 4);
  EXPECT_EQ(s.Out("mask-of-batch-0", 1), 3);
  EXPECT_EQ(s.Out("mask-of-head-0", 1), 4);
  Small heads(1, 1, 2);
  heads.problem.q_heads = 2;
  heads.inputs.q = Array(heads.problem.QShape(), 1);
  heads.problem.mask = BitPlane{{1, 2, 1, 2}, 4, {1, 0, 0, 1}};
  EXPECT_EQ(heads.Out("", 0, 1), 2);
  EXPECT_EQ(heads.Out("mask-of-head-0", 0, 1), 1);
}

TEST(MutantsTest, ScalesAndLogarithmsAreOff) {
  Small s(1, 1, 2);
  s.problem.head_dim = 3;
  s.problem.want_lse = true;
  s.inputs.q = Array(s.problem.QShape(), 1);
  s.inputs.k = Array(s.problem.KShape());
  s.inputs.k.values = {0, 0, 0, 3, 0, 0};
  const auto lse = [&](std::string_view id) {
    return Make(id).Run(s.problem, s.inputs).lse.values[0];
  };
  s.problem.scale = 0.5;
  EXPECT_NEAR(lse(""), std::log(1 + std::exp(1.5)), 1e-6);
  EXPECT_NEAR(lse("scale-twice"), std::log(1 + std::exp(0.75)), 1e-6);
  EXPECT_NEAR(lse("scale-left-out"), std::log(1 + std::exp(3)), 1e-6);
  EXPECT_NEAR(lse("lse-base-2"), std::log2(1 + std::exp(1.5)), 1e-6);
  EXPECT_NEAR(lse("split-merged-in-base-2"), 1.5 + std::log(1 + std::exp2(-1.5)), 1e-6);
}

TEST(MutantsTest, PrecisionIsLost) {
  Small s(1, 1, 2);
  s.inputs.v.values = {1, 1 + 0x1p-10};
  EXPECT_EQ(s.Out(""), 1 + 0x1p-11);
  EXPECT_EQ(s.Out("sums-in-bf16"), 1);
  s.inputs.v.values = {1, 2};
  s.problem.bias = BitPlane{{1, 1, 1, 2}, 2, {1, 1}};
  s.inputs.bias = Array({1, 1, 1, 2});
  s.inputs.bias.values = {1 + 0x1p-10, 1};
  EXPECT_LT(s.Out(""), 1.5);
  EXPECT_EQ(s.Out("bias-rounded"), 1.5);
}

TEST(MutantsTest, ValuesAreShiftedInAPartialTile) {
  Small s(1, 1, 5);
  EXPECT_FLOAT_EQ(s.Out("values-shifted"), (1 + 2 + 3 + 4 + 4) / 5.0);
  EXPECT_EQ(Small(1, 1, 4).Out("values-shifted"), 2.5);
}

TEST(MutantsTest, OneTileIsNotNormalised) {
  EXPECT_EQ(Small(1, 1, 4).Out("not-normalised"), 10);
  EXPECT_EQ(Small(1, 1, 5).Out("not-normalised"), 3);
}

TEST(MutantsTest, NullKernelsDoWhatTheySay) {
  Small s(1, 3, 2);
  s.inputs.k.values = {0, 3};
  EXPECT_THAT(Make("zeros").Run(s.problem, s.inputs).out.values, Each(0));
  EXPECT_THAT(Make("nan").Run(s.problem, s.inputs).out.values, Each(IsNan()));
  EXPECT_THAT(Make("echo-v").Run(s.problem, s.inputs).out.values, ElementsAre(1, 2, 2));
  EXPECT_THAT(Make("mean-v").Run(s.problem, s.inputs).out.values, Each(1.5));
}

}  // namespace
}  // namespace attest
