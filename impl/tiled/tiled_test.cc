#include "impl/tiled/tiled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/promises.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/attention/testing/repetitions.h"

namespace attest {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

DirectKernel Tiled(const std::string& tile = "64", const std::string& qtile = "16") {
  auto kernel = DirectKernel::Create(TiledKernelTable(), {{"tile", tile}, {"qtile", qtile}});
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

// One head, one-dimensional: q 1, keys and values as given.
Inputs Line(const std::vector<double>& keys, const std::vector<double>& values) {
  Inputs inputs{Array({1, 1, 1, 1}, 1), {}, {}, {}};
  const auto length = static_cast<int64_t>(keys.size());
  inputs.k = Array({1, 1, length, 1});
  inputs.v = Array({1, 1, length, 1});
  inputs.k.values = keys;
  inputs.v.values = values;
  return inputs;
}

Problem LineProblem(int64_t kv_len) {
  Problem p;
  p.kv_len = kv_len;
  p.want_lse = true;
  p.want_weights = true;
  return p;
}

TEST(TiledThreadsTest, EveryThreadCountGivesTheSameBits) {
  std::mt19937_64 random(11);
  const DirectKernel one = Tiled("3", "1");
  for (int round = 0; round < 50; ++round) {
    const Problem p = RandomProblem(random, DType::kF32);
    const Inputs inputs = RandomInputs(random, p);
    for (const int threads : {1, 2, 3, 7}) {
      const auto kernel =
          DirectKernel::Create(TiledKernelTable(), {{"tile", "3"}, {"qtile", "1"}}, threads);
      ASSERT_TRUE(kernel) << kernel.error();
      ASSERT_TRUE(SameBits(one.Run(p, inputs), kernel->Run(p, inputs))) << "round " << round;
    }
  }
}

class TiledTileTest : public testing::TestWithParam<const char*> {};

TEST_P(TiledTileTest, StaysWithinTheWorstCaseBound) {
  const DirectKernel kernel = Tiled(GetParam());
  std::mt19937_64 random(3);
  for (int round = 0; round < Repetitions(200); ++round) {
    const Problem p = RandomProblem(random, DType::kF32);
    Inputs inputs = RandomInputs(random, p);
    if (round % 2 == 1) PoisonHidden(p, inputs);
    ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << "round " << round;
  }
}

TEST_P(TiledTileTest, EveryFeatureStaysWithinTheWorstCaseBound) {
  const DirectKernel kernel = Tiled(GetParam());
  std::mt19937_64 random(13);
  for (int round = 0; round < Repetitions(200); ++round) {
    Problem p = RandomProblem(random, DType::kF32);
    AddRandomFeatures(random, p);
    Inputs inputs = RandomInputs(random, p);
    if (round % 2 == 1 && !p.want_scores) PoisonHidden(p, inputs);
    ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << "round " << round;
  }
}

TEST_P(TiledTileTest, EveryStorageGivesTheSameBits) {
  const DirectKernel kernel = Tiled(GetParam());
  std::mt19937_64 random(14);
  for (int round = 0; round < 200; ++round) {
    Problem p = RandomProblem(random, DType::kF32);
    AddRandomFeatures(random, p);
    ASSERT_TRUE(KeepsBitsInEveryStorage(kernel, p, RandomInputs(random, p))) << "round " << round;
  }
}

TEST_P(TiledTileTest, KeepsItsPromises) {
  EXPECT_TRUE(KeepsItsPromises(Tiled(GetParam()), Repetitions(15)));
}

TEST_P(TiledTileTest, LargeScoresStayWithinTheBound) {
  const DirectKernel kernel = Tiled(GetParam());
  std::mt19937_64 random(4);
  for (int round = 0; round < 300; ++round) {
    const Problem p = RandomProblem(random, DType::kF32);
    Inputs inputs = RandomInputs(random, p);
    for (double& value : inputs.k.values) value = RoundTo(DType::kF32, value * 3e4);
    ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << "round " << round;
  }
}

TEST_P(TiledTileTest, OverflowToMinusInfinityIsWeightZero) {
  Problem p = LineProblem(5);
  p.scale = 1;
  Inputs inputs = Line({-1e30, -1e30, -1e30, 0, -1e30}, {1, 2, 3, 4, 5});
  inputs.q.values = {RoundTo(DType::kF32, 1e30)};
  const DirectResult result = Tiled(GetParam()).Run(p, inputs);
  EXPECT_THAT(result.out.values, ElementsAre(4));
  EXPECT_THAT(result.lse.values, ElementsAre(0));
  EXPECT_THAT(result.weights.values, ElementsAre(0, 0, 0, 1, 0));
}

TEST_P(TiledTileTest, VisibleNanComesThrough) {
  const DirectKernel kernel = Tiled(GetParam());
  for (int64_t key = 0; key < 4; ++key) {
    Problem p = LineProblem(5);
    p.key_lengths = {{4}};
    Inputs inputs = Line({1, 2, 3, 4, kNaN}, {1, 2, 3, 4, kNaN});
    EXPECT_TRUE(std::isfinite(kernel.Run(p, inputs).out.values[0]));
    inputs.v.values[static_cast<size_t>(key)] = kNaN;
    DirectResult result = kernel.Run(p, inputs);
    EXPECT_TRUE(std::isnan(result.out.values[0]));
    EXPECT_TRUE(std::isfinite(result.lse.values[0]));
    inputs = Line({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5});
    inputs.k.values[static_cast<size_t>(key)] = kNaN;
    result = kernel.Run(p, inputs);
    EXPECT_TRUE(std::isnan(result.out.values[0]));
    EXPECT_TRUE(std::isnan(result.lse.values[0]));
    EXPECT_EQ(result.weights.values[4], 0);
  }
}

TEST_P(TiledTileTest, NanAfterAnUnderflowedKeyComesThrough) {
  const Problem p = LineProblem(3);
  const Inputs inputs = Line({-1000, -1000, 1000}, {kNaN, 1, 2});
  EXPECT_TRUE(std::isnan(Tiled(GetParam()).Run(p, inputs).out.values[0]));
}

TEST_P(TiledTileTest, EverySmallSizeMatchesTheReference) {
  const DirectKernel kernel = Tiled(GetParam());
  std::mt19937_64 random(5);
  for (int code = 0; code < 3 * 3 * 3 * 3 * 3 * 3 * 3; ++code) {
    Problem p;
    int rest = code;
    for (int64_t* size :
         {&p.batch, &p.kv_heads, &p.q_heads, &p.q_len, &p.kv_len, &p.head_dim, &p.value_dim}) {
      *size = rest % 3;
      rest /= 3;
    }
    p.q_heads *= p.kv_heads;  // the group size
    p.causal = code % 2 == 0;
    p.want_lse = true;
    p.want_weights = true;
    const Inputs inputs = RandomInputs(random, p);
    ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << "sizes " << code;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, TiledTileTest, testing::Values("1", "2", "3", "7", "16", "64"));

class TiledDTypeTest : public testing::TestWithParam<DType> {};

TEST_P(TiledDTypeTest, StaysWithinTheBoundOfItsPrecision) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 1000; ++round) {
    Problem p = RandomProblem(random, GetParam());
    if (round % 2 == 1) AddRandomFeatures(random, p);
    const Inputs inputs = RandomInputs(random, p);
    ASSERT_TRUE(MatchesReference(p, inputs, Tiled("5").Run(p, inputs))) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, TiledDTypeTest,
                         testing::Values(DType::kF64, DType::kF16, DType::kBF16));

TEST(TiledTest, QtileHasNoEffectOnBits) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const Problem p = RandomProblem(random, DType::kF32);
    const Inputs inputs = RandomInputs(random, p);
    ASSERT_TRUE(SameBits(Tiled("4", "1").Run(p, inputs), Tiled("4", "5").Run(p, inputs)));
    ASSERT_TRUE(SameBits(Tiled("4", "1").Run(p, inputs), Tiled("4", "1000").Run(p, inputs)));
  }
}

TEST(TiledTest, EmptyRowsAreZeroWithLseMinusInfinity) {
  Problem p = LineProblem(3);
  p.mask = BitPlane{{1, 1, 1, 3}, 4, {0, 0, 0}};
  const DirectResult result = Tiled().Run(p, Line({kNaN, kInf, 1}, {kNaN, kInf, 1}));
  EXPECT_THAT(result.out.values, ElementsAre(0));
  EXPECT_THAT(result.lse.values, ElementsAre(-kInf));
  EXPECT_THAT(result.weights.values, Each(0));
}

TEST(TiledTest, ASinkTakesItsShareAndNoValue) {
  Problem p = LineProblem(3);
  p.sinks = {{0.0}};
  DirectResult result = Tiled().Run(p, Line({0, 0, 0}, {4, 4, 4}));
  EXPECT_THAT(result.out.values, ElementsAre(3));
  EXPECT_FLOAT_EQ(static_cast<float>(result.lse.values[0]), std::log(4.0F));
  EXPECT_THAT(result.weights.values, Each(0.25));
  p.key_lengths = {{0}};
  p.sinks = {{2.5}};
  result = Tiled().Run(p, Line({0, 0, 0}, {4, 4, 4}));
  EXPECT_THAT(result.out.values, ElementsAre(0));
  EXPECT_THAT(result.lse.values, ElementsAre(2.5));
}

TEST(TiledTest, DropoutComesAfterTheSoftmax) {
  Problem p = LineProblem(2);
  p.dropout = Dropout{0.5, {{1, 1, 1, 2}, 4, {1, 0}}};
  const DirectResult result = Tiled().Run(p, Line({0, 0}, {3, 5}));
  EXPECT_THAT(result.out.values, ElementsAre(3));  // 0.5 * 3 / (1 - 0.5)
  EXPECT_THAT(result.weights.values, Each(0.5));
}

TEST(TiledTest, TheSoftcapComesBeforeTheBias) {
  Problem p = LineProblem(1);
  p.softcap = 1;
  p.bias = BitPlane{{1, 1, 1, 1}, 4, {1}};
  Inputs inputs = Line({1000}, {7});
  inputs.bias = Array({1, 1, 1, 1}, 4);
  EXPECT_THAT(Tiled().Run(p, inputs).lse.values, ElementsAre(5));
}

TEST(TiledTest, HugeTilesNeedNoMemory) {
  const Problem p = LineProblem(2);
  const DirectKernel kernel = Tiled("9223372036854775807", "9223372036854775807");
  EXPECT_THAT(kernel.Run(p, Line({0, 0}, {1, 3})).out.values, ElementsAre(2));
}

TEST(TiledTest, BadOptionsAreRefused) {
  const auto message = [](const char* key, const char* value) {
    const auto kernel = DirectKernel::Create(TiledKernelTable(), {{key, value}});
    return kernel ? "accepted" : kernel.error();
  };
  EXPECT_EQ(message("tile", "0"), "tile=0 is not an integer of at least 1");
  EXPECT_EQ(message("qtile", "x"), "qtile=x is not an integer of at least 1");
  EXPECT_THAT(message("frob", "1"), HasSubstr("known are tile, qtile"));
  EXPECT_EQ(message("variant", "slow"), "there is no variant \"slow\"; there is \"fast\"");
}

}  // namespace
}  // namespace attest
