#include "impl/reference/plugin/reference_kernel.h"

#include <gtest/gtest.h>

#include <random>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/promises.h"
#include "impl/abi/testing/random_problem.h"

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

TEST(ReferenceKernelTest, KeepsItsPromises) {
  EXPECT_TRUE(KeepsItsPromises(Make(), 200));
}

TEST(ReferenceKernelTest, TakesNoOptions) {
  const auto kernel = DirectKernel::Create(ReferenceKernelTable(), {{"tile", "1"}});
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error(), "option tile is unknown; this kernel takes none");
}

}  // namespace
}  // namespace attest
