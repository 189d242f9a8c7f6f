#include "impl/reference/plugin/reference_kernel.h"

#include <gtest/gtest.h>

#include <random>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/promises.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/attention/testing/repetitions.h"

namespace attest {
namespace {

DirectKernel Make() {
  auto kernel = DirectKernel::Create(ReferenceKernelTable());
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

Array Rounded(Array array, DType dtype) {
  for (double& value : array.values) value = RoundTo(dtype, value);
  return array;
}

// The way through the ABI and back loses nothing, in any layout.
TEST(ReferenceKernelTest, AnswersTheReferenceRoundedToTheDType) {
  const DirectKernel kernel = Make();
  std::mt19937_64 random(10);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (int round = 0; round < 400; ++round) {
      Problem p = RandomProblem(random, dtype);
      Inputs inputs = RandomInputs(random, p);
      if (round % 2 == 1) PoisonHidden(p, inputs);
      const auto layout = static_cast<DirectLayout>(round % 3);
      const DirectResult result = kernel.Run(p, inputs, layout);
      ASSERT_EQ(result.status, ATTEST_OK) << result.message;
      const Reference expected =
          ComputeReference(p, inputs, {EmptyRow::kZero, LseEmptyRow::kMinusInf});
      ASSERT_TRUE(SameBits(result.out, Rounded(expected.out, dtype)));
      ASSERT_TRUE(SameBits(result.lse, Rounded(expected.lse, p.LseDType())));
      ASSERT_TRUE(SameBits(result.weights, Rounded(expected.weights, dtype)));
    }
  }
}

// The same with the whole surface of attention, which the ABI carries in other words.
TEST(ReferenceKernelTest, AnswersTheReferenceOfEveryFeature) {
  const DirectKernel kernel = Make();
  std::mt19937_64 random(11);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (int round = 0; round < 400; ++round) {
      Problem p = RandomProblem(random, dtype);
      AddRandomFeatures(random, p);
      const Inputs inputs = RandomInputs(random, p);
      const DirectResult result = kernel.Run(p, inputs, static_cast<DirectLayout>(round % 3));
      ASSERT_EQ(result.status, ATTEST_OK) << result.message;
      const Reference expected =
          ComputeReference(p, inputs, {EmptyRow::kZero, LseEmptyRow::kMinusInf});
      ASSERT_TRUE(SameBits(result.out, Rounded(expected.out, dtype))) << round;
      ASSERT_TRUE(SameBits(result.lse, Rounded(expected.lse, p.LseDType()))) << round;
      ASSERT_TRUE(SameBits(result.weights, Rounded(expected.weights, dtype))) << round;
      if (p.want_scores) {
        ASSERT_TRUE(SameBits(result.scores, Rounded(expected.asked_scores, dtype))) << round;
      }
    }
  }
}

TEST(ReferenceKernelTest, EveryStorageGivesTheSameBits) {
  const DirectKernel kernel = Make();
  std::mt19937_64 random(12);
  for (int round = 0; round < 400; ++round) {
    Problem p = RandomProblem(random, DType::kF32);
    AddRandomFeatures(random, p);
    ASSERT_TRUE(KeepsBitsInEveryStorage(kernel, p, RandomInputs(random, p))) << "round " << round;
  }
}

TEST(ReferenceKernelTest, KeepsItsPromises) {
  EXPECT_TRUE(KeepsItsPromises(Make(), Repetitions(50)));
}

// What each contract means is tested through the probe, which finds it out again
// (properties/harness/probe/probe_test.cc).
TEST(ReferenceKernelTest, FollowsAPublishedContract) {
  const auto kernel = DirectKernel::Create(ReferenceKernelTable(), {{"contract", "torch-mha"}});
  ASSERT_TRUE(kernel) << kernel.error();
  Problem p;
  p.q_len = p.kv_len = 2;
  p.mask = BitPlane{{1, 1, 2, 2}, 4, {1, 0, 0, 1}};
  Inputs inputs{Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), {}};
  inputs.v.values = {10, 20};
  const DirectResult result = kernel->Run(p, inputs, DirectLayout::kBshd);
  ASSERT_EQ(result.status, ATTEST_OK) << result.message;
  EXPECT_EQ(result.out.values, (std::vector<double>{20, 10}));  // true hides
  p.mask.reset();
  p.causal = true;
  EXPECT_EQ(kernel->Run(p, inputs, DirectLayout::kBshd).status, ATTEST_UNSUPPORTED);
}

TEST(ReferenceKernelTest, RefusesAContractThatIsNotPublished) {
  const auto kernel = DirectKernel::Create(ReferenceKernelTable(), {{"contract", "nope"}});
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error(), "contract nope is not a published one: attest list contracts");
}

TEST(ReferenceKernelTest, TakesTheOptionContractAndNoOther) {
  const auto kernel = DirectKernel::Create(ReferenceKernelTable(), {{"tile", "1"}});
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error(), "option tile is unknown; known are contract");
}

}  // namespace
}  // namespace attest
