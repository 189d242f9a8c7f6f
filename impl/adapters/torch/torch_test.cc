// The plug-in's variants against the double reference, and what they refuse. Built where PyTorch is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/adapters/plugin_testing.h"

namespace attest {
namespace {

using testing::HasSubstr;

DirectKernel Variant(const std::string& name) {
  auto kernel = DirectKernel::Create(OpenPlugin(ATTEST_PLUGIN), {{"variant", name}});
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

Problem Plain(DType dtype = DType::kF32) {
  Problem p;
  p.batch = 2;
  p.q_heads = p.kv_heads = 3;
  p.q_len = 4;
  p.kv_len = 5;
  p.head_dim = p.value_dim = 6;
  p.dtype = dtype;
  p.want_weights = true;
  return p;
}

testing::AssertionResult Right(const DirectKernel& kernel, const Problem& p,
                               DirectLayout layout = DirectLayout::kDense) {
  std::mt19937_64 random(7);
  const Inputs inputs = RandomInputs(random, p);
  return MatchesReference(p, inputs, kernel.Run(p, inputs, layout));
}

std::string Refusal(const DirectKernel& kernel, const Problem& p) {
  std::mt19937_64 random(7);
  const DirectResult result = kernel.Run(p, RandomInputs(random, p));
  EXPECT_EQ(result.status, ATTEST_UNSUPPORTED);
  return result.message;
}

class TorchVariantTest : public testing::TestWithParam<const char*> {};

TEST_P(TorchVariantTest, EqualsTheReferenceInEveryLayoutAndScale) {
  const DirectKernel kernel = Variant(GetParam());
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Problem p = Plain(dtype);
    EXPECT_TRUE(Right(kernel, p));
    EXPECT_TRUE(Right(kernel, p, DirectLayout::kBshd));
    EXPECT_TRUE(Right(kernel, p, DirectLayout::kGapped));
    p.scale = 0.3;
    EXPECT_TRUE(Right(kernel, p));
    std::swap(p.q_len, p.kv_len);
    EXPECT_TRUE(Right(kernel, p));
  }
}

TEST_P(TorchVariantTest, RefusesWhatTheFunctionsDoNotOffer) {
  const DirectKernel kernel = Variant(GetParam());
  Problem grouped = Plain();
  grouped.q_heads = 6;
  EXPECT_THAT(Refusal(kernel, grouped), HasSubstr("as many heads"));
  Problem wide = Plain();
  wide.value_dim = 7;
  EXPECT_THAT(Refusal(kernel, wide), HasSubstr("as wide"));
  EXPECT_THAT(Refusal(kernel, Plain(DType::kF16)), HasSubstr("f32 and f64"));
  Problem softcap = Plain();
  softcap.softcap = 5;
  Refusal(kernel, softcap);
}

INSTANTIATE_TEST_SUITE_P(All, TorchVariantTest, testing::Values("sdpa", "mha", "mha_fast"));

TEST(TorchSdpa, TakesABooleanMaskOrTheCausalFlag) {
  const DirectKernel kernel = Variant("sdpa");
  Problem masked = Plain();
  masked.mask = Stripes(masked.WeightsShape(), 4);
  EXPECT_TRUE(Right(kernel, masked));
  Problem causal = Plain();
  causal.causal = true;
  EXPECT_TRUE(Right(kernel, causal));
  masked.causal = true;
  EXPECT_THAT(Refusal(kernel, masked), HasSubstr("is_causal"));
  Problem biased = Plain();
  biased.bias = Stripes(biased.WeightsShape(), 4);
  EXPECT_THAT(Refusal(kernel, biased), HasSubstr("boolean"));
}

TEST(TorchMultiHead, KeyLengthsBecomeThePaddingMask) {
  Problem p = Plain();
  p.key_lengths = {1, 4};
  EXPECT_TRUE(Right(Variant("mha"), p));
  EXPECT_TRUE(Right(Variant("mha_fast"), p));
}

TEST(TorchMultiHead, ABiasThatAllHeadsShareIsTheTwoDimensionalMask) {
  Problem p = Plain();
  p.bias = Stripes({1, 1, p.q_len, p.kv_len}, 2);
  EXPECT_TRUE(Right(Variant("mha"), p));
  EXPECT_THAT(Refusal(Variant("mha_fast"), p), HasSubstr("padding"));
}

// Autograd's gradients in every layout and scale.
testing::AssertionResult RightBackwards(const DirectKernel& kernel, Problem p) {
  p.want_weights = false;
  p.want_gradients = true;
  std::mt19937_64 random(8);
  for (const DirectLayout layout :
       {DirectLayout::kDense, DirectLayout::kBshd, DirectLayout::kGapped}) {
    const Inputs inputs = RandomInputs(random, p);
    if (auto match = MatchesGradient(p, inputs, kernel.Run(p, inputs, layout)); !match)
      return match;
    p.scale = 0.3;
  }
  return testing::AssertionSuccess();
}

TEST(TorchBackward, SdpaHasTheGradientsOfMasksAndCausality) {
  const DirectKernel kernel = Variant("sdpa");
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Problem p = Plain(dtype);
    EXPECT_TRUE(RightBackwards(kernel, p));
    p.causal = true;
    EXPECT_TRUE(RightBackwards(kernel, p));
    p.causal = false;
    p.mask = Stripes(p.WeightsShape(), 4);
    EXPECT_TRUE(RightBackwards(kernel, p));
  }
}

TEST(TorchBackward, MultiHeadHasThatOfItsBias) {
  const DirectKernel kernel = Variant("mha");
  Problem p = Plain();
  p.key_lengths = {1, 4};
  EXPECT_TRUE(RightBackwards(kernel, p));
  p.key_lengths.reset();
  p.bias = Stripes({1, 1, p.q_len, p.kv_len}, 2);
  EXPECT_TRUE(RightBackwards(kernel, p));
}

TEST(TorchPlugin, UnknownVariantsAreNamed) {
  const auto kernel = DirectKernel::Create(OpenPlugin(ATTEST_PLUGIN), {{"variant", "flash"}});
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error(), HasSubstr("\"flash\""));
}

}  // namespace
}  // namespace attest
