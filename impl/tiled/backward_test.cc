#include "impl/tiled/backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/random_problem.h"

namespace attest {
namespace {

using testing::Each;

DirectKernel Tiled(const std::string& tile, int threads = 1) {
  auto kernel = DirectKernel::Create(TiledKernelTable(), {{"tile", tile}}, threads);
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

DirectKernel Fast() {
  auto kernel = DirectKernel::Create(TiledKernelTable(), {{"variant", "fast"}}, 1);
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

// With every feature that a backward call carries.
Problem RandomGradientProblem(std::mt19937_64& random, DType dtype) {
  Problem p = RandomProblem(random, dtype);
  AddRandomFeatures(random, p);
  p.fp8.reset();
  p.want_scores.reset();
  p.want_weights = false;
  p.want_gradients = true;
  return p;
}

class TiledBackwardTest : public testing::TestWithParam<DType> {};

TEST_P(TiledBackwardTest, StaysWithinTheWorstCaseBound) {
  const DirectKernel small = Tiled("3"), large = Tiled("64"), fast = Fast();
  std::mt19937_64 random(21);
  for (int round = 0; round < 300; ++round) {
    const Problem p = RandomGradientProblem(random, GetParam());
    Inputs inputs = RandomInputs(random, p);
    if (round % 2 == 1) PoisonHidden(p, inputs);
    const DirectKernel& kernel = round % 3 == 0 ? small : round % 3 == 1 ? large : fast;
    ASSERT_TRUE(MatchesGradient(p, inputs, kernel.Run(p, inputs))) << "round " << round;
    if (!IsPackable(p)) continue;
    const DirectResult packed = kernel.Run(p, inputs, DirectForm{{}, DirectStorage::kPacked});
    ASSERT_TRUE(MatchesGradient(p, inputs, packed)) << "round " << round << ", packed";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TiledBackwardTest,
                         testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16));

TEST(TiledBackwardBitsTest, NeitherThreadsNorLayoutNorHiddenDataMatter) {
  std::mt19937_64 random(22);
  const DirectKernel one = Tiled("5"), threaded = Tiled("5", 3);
  for (int round = 0; round < 60; ++round) {
    const Problem p = RandomGradientProblem(random, DType::kF32);
    Inputs inputs = RandomInputs(random, p);

    const DirectResult once = one.Run(p, inputs);

    ASSERT_TRUE(SameBits(once, threaded.Run(p, inputs))) << "round " << round;
    ASSERT_TRUE(SameBits(once, one.Run(p, inputs, DirectLayout::kGapped))) << "round " << round;
    PoisonHidden(p, inputs);
    ASSERT_TRUE(SameBits(once, one.Run(p, inputs))) << "round " << round;
  }
}

TEST(TiledBackwardBitsTest, AHiddenKeyAndABlindRowGetExactlyZero) {
  Problem p;
  p.q_len = 2;
  p.kv_len = 2;
  p.causal = true;
  p.diagonal_offset = {-1};  // row 0 sees nothing, row 1 sees key 0
  p.want_lse = p.want_gradients = true;
  Inputs inputs{
      Array(p.QShape(), 1), Array(p.KShape(), 2), Array(p.VShape(), 3), {}, Array(p.OutShape(), 1)};
  inputs.k.values[1] = inputs.v.values[1] = std::numeric_limits<double>::quiet_NaN();
  const DirectResult result = Tiled("64").Run(p, inputs);
  ASSERT_EQ(result.status, ATTEST_OK) << result.message;
  EXPECT_THAT(result.dq.values, Each(0));
  EXPECT_THAT(result.dk.values, Each(0));
  EXPECT_THAT(result.dv.values, testing::ElementsAre(1, 0));
}

TEST(TiledBackwardCallTest, WithoutAnLseItIsRefused) {
  Problem p;
  p.want_gradients = true;
  const Inputs inputs{
      Array(p.QShape(), 1), Array(p.KShape(), 1), Array(p.VShape(), 1), {}, Array(p.OutShape(), 1)};
  const DirectResult result = Tiled("64").Run(p, inputs);
  EXPECT_EQ(result.status, ATTEST_INVALID_ARGUMENT);
  EXPECT_EQ(result.message, "lse is missing in a backward call");
}

}  // namespace
}  // namespace attest
