// The plug-in against the double reference, and what it refuses. Built where oneDNN is.
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

DirectKernel Composed() {
  auto kernel = DirectKernel::Create(OpenPlugin(ATTEST_PLUGIN), {{"variant", "composed"}});
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

// Three query heads a key head, more batch items than one, a value_dim of its own.
Problem Grouped(DType dtype) {
  Problem p;
  p.batch = 2;
  p.q_heads = 6;
  p.kv_heads = 2;
  p.q_len = 3;
  p.kv_len = 5;
  p.head_dim = 4;
  p.value_dim = 7;
  p.dtype = dtype;
  p.scale = 0.75;
  return p;
}

TEST(OneDnn, EqualsTheReference) {
  const DirectKernel kernel = Composed();
  std::mt19937_64 random(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const DirectLayout layout : {DirectLayout::kDense, DirectLayout::kBshd}) {
      Problem p = Grouped(dtype);
      // oneDNN rounds bf16 weights twice, which is more than the bound forgives.
      p.want_weights = dtype == DType::kF32;
      const Inputs inputs = RandomInputs(random, p);
      EXPECT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs, layout)))
          << static_cast<int>(dtype);
    }
  }
}

TEST(OneDnn, BiasOfMinusInfinityHides) {
  std::mt19937_64 random(2);
  Problem p = Grouped(DType::kF32);
  p.want_weights = true;
  p.bias = Stripes(p.WeightsShape(), 4);
  const Inputs inputs = RandomInputs(random, p);
  EXPECT_TRUE(MatchesReference(p, inputs, Composed().Run(p, inputs)));
}

TEST(OneDnn, WhatThePrimitivesDoNotOfferIsUnsupported) {
  const DirectKernel kernel = Composed();
  std::mt19937_64 random(3);
  const auto message_of = [&](const Problem& p) {
    const DirectResult result = kernel.Run(p, RandomInputs(random, p));
    EXPECT_EQ(result.status, ATTEST_UNSUPPORTED);
    return result.message;
  };
  Problem causal = Grouped(DType::kF32);
  causal.causal = true;
  message_of(causal);
  EXPECT_THAT(message_of(Grouped(DType::kF64)), HasSubstr("f32 and bf16"));
  Problem empty = Grouped(DType::kF32);
  empty.kv_len = 0;
  EXPECT_THAT(message_of(empty), HasSubstr("extent"));
}

TEST(OneDnn, UnknownVariantsAndOptionsAreNamed) {
  const attest_kernel_table* table = OpenPlugin(ATTEST_PLUGIN);
  EXPECT_THAT(DirectKernel::Create(table, {{"variant", "fused"}}).error(), HasSubstr("\"fused\""));
  EXPECT_THAT(DirectKernel::Create(table, {{"tile", "16"}}).error(), HasSubstr("tile"));
}

}  // namespace
}  // namespace attest
