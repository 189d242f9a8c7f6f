#include "impl/mutants/mutants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/promises.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/mutants/plain.h"

namespace attest {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsNan;

DirectKernel Make(std::string_view id = {}, int threads = 1) {
  std::vector<std::pair<std::string, std::string>> options;
  if (!id.empty()) options.emplace_back("variant", id);
  auto kernel = DirectKernel::Create(MutantKernelTable(), options, threads);
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

// q all ones, one head of dimension 1; keys and values as given, scores equal to the keys.
struct Small {
  Problem problem;
  Inputs inputs;

  Small(int64_t batch, int64_t q_len, int64_t kv_len) {
    problem.batch = batch;
    problem.q_len = q_len;
    problem.kv_len = kv_len;
    inputs = {Array(problem.QShape(), 1), Array(problem.KShape()), Array(problem.VShape()), {}};
    for (size_t n = 0; n < inputs.v.values.size(); ++n) inputs.v.values[n] = 1.0 + double(n);
  }
  double Out(std::string_view id, int64_t b = 0, int64_t h = 0, int64_t i = 0) const {
    return Make(id).Run(problem, inputs).out.At(b, h, i, 0);
  }
};

TEST(PlainKernelTest, StaysWithinTheWorstCaseBound) {
  const DirectKernel kernel = Make();
  std::mt19937_64 random(8);
  for (int round = 0; round < 3000; ++round) {
    const Problem p = RandomProblem(random, DType::kF32);
    Inputs inputs = RandomInputs(random, p);
    if (round % 2 == 1) PoisonHidden(p, inputs);
    if (round % 3 == 0) {
      for (double& value : inputs.k.values) value = RoundTo(DType::kF32, value * 3e4);
    }
    ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << "round " << round;
  }
}

TEST(PlainKernelTest, EveryFeatureStaysWithinTheWorstCaseBound) {
  const DirectKernel kernel = Make();
  std::mt19937_64 random(15);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (int round = 0; round < 800; ++round) {
      Problem p = RandomProblem(random, dtype);
      AddRandomFeatures(random, p);
      Inputs inputs = RandomInputs(random, p);
      if (round % 2 == 1 && !p.want_scores) PoisonHidden(p, inputs);
      ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << "round " << round;
    }
  }
}

// The faults too, as far as they do not live in tiles at the end of the keys, must read nothing that
// no storage holds.
TEST(PlainKernelTest, EveryStorageGivesTheSameBits) {
  for (const std::string_view id : {"", "padding-ignored-after-batch-0", "kv-head-modulo"}) {
    const DirectKernel kernel = Make(id);
    std::mt19937_64 random(16);
    for (int round = 0; round < 400; ++round) {
      Problem p = RandomProblem(random, DType::kF32);
      AddRandomFeatures(random, p);
      if (!id.empty()) p.key_lengths.reset();
      ASSERT_TRUE(KeepsBitsInEveryStorage(kernel, p, RandomInputs(random, p)))
          << id << " round " << round;
    }
  }
}

TEST(PlainKernelTest, KeepsItsPromises) {
  EXPECT_TRUE(KeepsItsPromises(Make(), 60));
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
    faults += mutant.kind == MutantKind::kFault ? 1 : 0;
    EXPECT_EQ(mutant.cause.empty(), mutant.kind == MutantKind::kNull) << mutant.id;
  }
  EXPECT_EQ(faults, 56);
  EXPECT_EQ(ids.size(), 60u);
  EXPECT_EQ(FindMutant(""), nullptr);
}

// The storage in which a fault of storage shows; the others show in any.
DirectStorage StorageFor(Mutation mutation) {
  switch (mutation) {
    case Mutation::kPastAfterNew:
      return DirectStorage::kPast;
    case Mutation::kPagesOfBatch0:
      return DirectStorage::kPages;
    case Mutation::kRingFromSlot0:
      return DirectStorage::kRing;
    default:
      return DirectStorage::kPlain;
  }
}

// Whether one call at a time, on one thread, shows nothing of the fault.
bool NeedsThreads(Mutation mutation) {
  return mutation == Mutation::kRemainderDropped || mutation == Mutation::kPlanShared;
}

// Whether no random problem has what shows the fault: 64 queries, a past of many keys, f16.
bool NeedsItsOwnProblem(Mutation mutation) {
  return mutation == Mutation::kSoftcapTailAttended || mutation == Mutation::kOneQueryNotCausal ||
         mutation == Mutation::kPastNeedsPresent || mutation == Mutation::kMaskFillerFinite ||
         mutation == Mutation::kProductsInF16 || mutation == Mutation::kSumsInStorageType;
}

// Each fault shows on some random problem, and a null kernel on nearly all.
TEST(MutantsTest, EachDiffersFromTheCorrectKernel) {
  const DirectKernel correct = Make();
  for (const Mutant& mutant : Mutants()) {
    if (NeedsThreads(mutant.mutation) || NeedsItsOwnProblem(mutant.mutation)) continue;
    const DirectKernel kernel = Make(mutant.id);
    const bool needs_features =
        mutant.mutation >= Mutation::kSoftcapIgnored && mutant.kind == MutantKind::kFault;
    const DirectForm form{DirectLayout::kDense, StorageFor(mutant.mutation)};
    std::mt19937_64 random(9);
    int differing = 0;
    for (int round = 0; round < 400; ++round) {
      Problem p = RandomProblem(random, DType::kF32);
      if (needs_features) AddRandomFeatures(random, p);
      if (form.storage == DirectStorage::kPages) p.want_scores.reset();
      Inputs inputs = RandomInputs(random, p);
      if (mutant.mutation == Mutation::kPoisonThroughZero) PoisonHidden(p, inputs);
      if (mutant.mutation == Mutation::kFiniteRunningMax) {
        for (double& value : inputs.k.values) value *= 3e5;
      }
      differing += SameBits(correct.Run(p, inputs, form), kernel.Run(p, inputs, form)) ? 0 : 1;
    }
    EXPECT_GE(differing, mutant.kind == MutantKind::kNull ? 200 : 5) << mutant.id;
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

// The smallest case of ggml's fault: 63 keys of weight e^-2 beside one of weight 1.
TEST(MutantsTest, TheTailOfALargeTileIsAttendedUnderASoftcap) {
  Small s(1, 64, 1);
  s.problem.softcap = 2;
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_NEAR(s.Out("softcap-tail-attended"), 1 / (1 + 63 * std::exp(-2)), 1e-6);
  s.problem.softcap = 0;
  EXPECT_EQ(s.Out("softcap-tail-attended"), 1);
  Small fewer(1, 63, 1);
  fewer.problem.softcap = 2;
  EXPECT_EQ(fewer.Out("softcap-tail-attended"), 1);
  Small full(1, 64, 64);
  full.problem.softcap = 2;
  EXPECT_EQ(full.Out("softcap-tail-attended"), full.Out(""));
}

TEST(MutantsTest, CausalityIsDroppedForSomeRows) {
  Small s(1, 2, 4);
  s.problem.causal = true;
  EXPECT_EQ(s.Out("", 0, 0, 1), 1.5);
  EXPECT_EQ(s.Out("last-row-not-causal", 0, 0, 0), 1);
  EXPECT_EQ(s.Out("last-row-not-causal", 0, 0, 1), 2.5);
  EXPECT_EQ(s.Out("one-query-not-causal", 0, 0, 1), 1.5);
  Small one(1, 1, 4);
  one.problem.causal = true;
  EXPECT_EQ(one.Out("one-query-not-causal"), 1);
  const DirectForm past{DirectLayout::kDense, DirectStorage::kPast};
  EXPECT_EQ(Make("").Run(one.problem, one.inputs, past).out.values[0], 1);
  EXPECT_EQ(Make("one-query-not-causal").Run(one.problem, one.inputs, past).out.values[0], 2.5);
}

TEST(MutantsTest, ThePastNeedsThePresent) {
  const Small s(1, 1, 4);
  DirectForm past{DirectLayout::kDense, DirectStorage::kPast};
  const DirectKernel kernel = Make("past-needs-present");
  EXPECT_EQ(kernel.Run(s.problem, s.inputs, past).out.values[0], 3.5);
  past.want_present = true;
  EXPECT_EQ(kernel.Run(s.problem, s.inputs, past).out.values[0], 2.5);
}

TEST(MutantsTest, MasksAreAddedInsteadOfHiding) {
  Small s(1, 1, 2);
  s.problem.mask = BitPlane{{1, 1, 1, 2}, 2, {0, 1}};
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_NEAR(s.Out("mask-added"), (1 + 2 * std::exp(1)) / (1 + std::exp(1)), 1e-6);
  EXPECT_EQ(s.Out("mask-filler-finite"), 2);
  s.inputs.k.values = {49984, -49984};
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_EQ(s.Out("mask-filler-finite"), 1);
}

TEST(MutantsTest, SumsAreKeptInTheTypeOfTheCall) {
  Small s(1, 1, 9);
  s.problem.dtype = DType::kF16;
  s.inputs.v.values.assign(9, 8184);
  EXPECT_EQ(s.Out(""), 8184);
  EXPECT_EQ(s.Out("sums-in-storage-type"), INFINITY);
  Small products(1, 1, 2);
  products.problem.dtype = DType::kF16;
  products.problem.scale = 0x1p-4;
  products.inputs.q.values = {256};
  products.inputs.k.values = {256, 0};
  EXPECT_EQ(products.Out(""), 1);
  EXPECT_THAT(products.Out("products-in-f16"), IsNan());
}

TEST(MutantsTest, TheLastRowIsUnwritten) {
  const Small s(1, 5, 1);
  EXPECT_EQ(s.Out("row-unwritten", 0, 0, 3), 1);
  EXPECT_NE(s.Out("row-unwritten", 0, 0, 4), 1);
  EXPECT_EQ(Small(1, 4, 1).Out("row-unwritten", 0, 0, 3), 1);
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
