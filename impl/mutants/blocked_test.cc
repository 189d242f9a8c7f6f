// What each fault of the blocked kernel does, on calls whose right answer anyone can see. Tiles are of
// 4 rows and 4 keys, splits of 8 keys.
#include "impl/mutants/blocked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/mutants/testing.h"

namespace attest {
namespace {

using testing::IsNan;

TEST(BlockedTest, TilesOnTheDiagonalAreTakenWholeOrSkipped) {
  Small s(1, 4, 8);
  s.problem.causal = true;
  EXPECT_EQ(s.Out("blocked", 0, 0, 1), 1.5);
  EXPECT_EQ(s.Out("diagonal-tile-full", 0, 0, 1), 2.5);
  EXPECT_EQ(s.Out("diagonal-tile-skipped", 0, 0, 1), 1.5);  // the last row sees all of it
  s.problem.diagonal_offset = {3};
  EXPECT_EQ(s.Out("blocked", 0, 0, 3), 4);  // keys 0 to 6
  EXPECT_EQ(s.Out("diagonal-tile-skipped", 0, 0, 3), 2.5);
}

TEST(BlockedTest, TheWindowsFirstTileIsSkipped) {
  Small s(1, 1, 8);
  s.problem.diagonal_offset = {5};
  s.problem.window = {3, 0};
  EXPECT_EQ(s.Out("blocked"), 4.5);  // keys 2 to 5
  EXPECT_EQ(s.Out("window-tile-skipped"), 5.5);
  s.problem.window = {5, 0};
  EXPECT_EQ(s.Out("window-tile-skipped"), 3.5);
}

TEST(BlockedTest, TheTileOfTheLengthIsTakenWhole) {
  Small s(1, 1, 6);
  s.problem.key_lengths = {{2}};
  EXPECT_EQ(s.Out("blocked"), 1.5);
  EXPECT_EQ(s.Out("length-tile-full"), 2.5);
  s.Mask({1, 1, 1, 6}, {1, 1, 1, 1, 1, 1});
  EXPECT_EQ(s.Out("length-tile-full"), 1.5);
}

TEST(BlockedTest, TheTailOfATileIsKept) {
  EXPECT_EQ(Small(1, 1, 5).Out("blocked"), 3);
  EXPECT_FLOAT_EQ(Small(1, 1, 5).Out("tile-tail-kept"), (15 + 2 + 3 + 4) / 8.0);
  EXPECT_EQ(Small(1, 1, 8).Out("tile-tail-kept"), 4.5);
}

TEST(BlockedTest, TheMaskOfTheFirstTileServesAll) {
  Small s(1, 5, 2);
  s.Mask({1, 1, 5, 2}, {1, 0, 1, 1, 1, 1, 1, 1, 0, 1});
  EXPECT_EQ(s.Out("blocked", 0, 0, 4), 2);
  EXPECT_EQ(s.Out("mask-tile-misplaced", 0, 0, 4), 1);
}

TEST(BlockedTest, TilesOfEmptyRowsAreUnwritten) {
  Small s(1, 5, 1);
  s.Mask({1, 1, 5, 1}, {0, 0, 1, 0, 0});
  EXPECT_EQ(s.Out("empty-query-tile-unwritten", 0, 0, 0), 0);
  EXPECT_NE(s.Out("empty-query-tile-unwritten", 0, 0, 4), 0);
  EXPECT_EQ(s.Out("blocked", 0, 0, 4), 0);
}

TEST(BlockedTest, MaximaAreStaleOrGuardedWrongly) {
  Small s(1, 1, 5);
  s.inputs.k.values = {0, 0, 0, 0, 1};
  const double e = std::exp(1);
  EXPECT_NEAR(s.Out("blocked"), (10 + 5 * e) / (4 + e), 1e-5);
  EXPECT_NEAR(s.Out("maximum-stale"), (10 / e + 5 * e) / (4 / e + e), 1e-5);
  s.inputs.k.values = {-2e4, -2e4, -2e4, -2e4, 0};
  s.Mask({1, 1, 1, 5}, {1, 1, 1, 1, 0});
  EXPECT_EQ(s.Out("blocked"), 2.5);
  EXPECT_THAT(s.Out("hidden-tile-guard"), IsNan());
  s.Mask({1, 1, 1, 5}, {0, 0, 0, 0, 1});
  EXPECT_EQ(s.Out("blocked"), 5);
  EXPECT_THAT(s.Out("first-tile-hidden-nan"), IsNan());
}

TEST(BlockedTest, RowsOfATileShareAMaximum) {
  Small s(1, 2, 2);
  s.inputs.q.values = {1, 1000};
  s.inputs.k.values = {1, 1};
  EXPECT_EQ(s.Out("blocked", 0, 0, 0), 1.5);
  EXPECT_THAT(s.Out("maximum-shared-by-rows", 0, 0, 0), IsNan());
  EXPECT_EQ(s.Out("maximum-shared-by-rows", 0, 0, 1), 1.5);
}

TEST(BlockedTest, SplitsAreMergedWrongly) {
  Small s(1, 1, 9);
  EXPECT_EQ(s.Out("blocked"), 5);
  const double wrong = std::pow(8, 1 / std::log(2.0));  // e^log2(8) where e^ln(8) is right
  EXPECT_NEAR(s.Out("split-lse-in-base-2"), (4.5 * wrong + 9) / (wrong + 1), 1e-4);
  EXPECT_EQ(Small(1, 1, 8).Out("split-lse-in-base-2"), 4.5);
  s.problem.sinks = {{0.0}};
  EXPECT_NEAR(s.Out("blocked"), 4.5, 1e-6);
  EXPECT_NEAR(s.Out("sink-in-every-split"), 45 / 11.0, 1e-6);
  s.problem.sinks.reset();
  s.problem.key_lengths = {{0}};
  EXPECT_EQ(s.Out("blocked"), 0);
  EXPECT_THAT(s.Out("merge-of-empty-parts"), IsNan());
  EXPECT_EQ(Small(1, 1, 8).Out("merge-of-empty-parts"), 4.5);
}

TEST(BlockedTest, EveryThreadCountGivesTheSameBitsButWhereSplitsFollowIt) {
  std::mt19937_64 random(9);
  int differing = 0;
  for (int round = 0; round < 50; ++round) {
    const Problem p = RandomProblem(random, DType::kF32);
    const Inputs inputs = RandomInputs(random, p);
    const DirectResult one = Make("blocked").Run(p, inputs);
    ASSERT_TRUE(SameBits(one, Make("blocked", 3).Run(p, inputs))) << "round " << round;
    ASSERT_TRUE(SameBits(one, Make("splits-follow-threads").Run(p, inputs)));
    const DirectResult split = Make("splits-follow-threads", 3).Run(p, inputs);
    ASSERT_TRUE(MatchesReference(p, inputs, split)) << "round " << round;
    differing += SameBits(one, split) ? 0 : 1;
  }
  EXPECT_GE(differing, 10);
}

}  // namespace
}  // namespace attest
