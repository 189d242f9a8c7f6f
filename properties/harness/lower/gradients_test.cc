#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "properties/harness/lower/lower.h"
#include "properties/harness/lower/testing.h"

namespace attest {
namespace {

using ::testing::ElementsAre;

Contract With(const std::string& backward) {
  return Parse(R"({"contract": "attest-1", "backward": [)" + backward + "]}");
}

Case GradientCase() {
  Case c;
  c.problem.q_heads = 2;
  c.problem.q_len = 2;
  c.problem.kv_len = 3;
  c.problem.head_dim = 4;
  c.problem.value_dim = 2;
  c.problem.want_gradients = true;
  c.recipe.dout = ValueFamily::kSmallIntegers;
  return c;
}

TEST(LowerGradientsTest, TheCallHasDoutAndTheLseAndAsksForAllThree) {
  const Call call = MustLower(GradientCase(), With(R"("gqa", "value_dim")")).call;
  EXPECT_FALSE(Find(call, ATTEST_ROLE_DOUT)->is_output);
  EXPECT_THAT(Find(call, ATTEST_ROLE_DOUT)->shape, ElementsAre(1, 2, 2, 2));
  EXPECT_TRUE(Find(call, ATTEST_ROLE_LSE)->is_output);
  EXPECT_TRUE(Find(call, ATTEST_ROLE_DQ)->is_output);
  EXPECT_THAT(Find(call, ATTEST_ROLE_DQ)->shape, ElementsAre(1, 2, 2, 4));
  EXPECT_THAT(Find(call, ATTEST_ROLE_DK)->shape, ElementsAre(1, 1, 3, 4));
  EXPECT_THAT(Find(call, ATTEST_ROLE_DV)->shape, ElementsAre(1, 1, 3, 2));
}

TEST(LowerGradientsTest, WhatBackwardCallsDoNotCarryIsNotOffered) {
  const auto why = [](const Case& c, const Contract& contract) {
    const auto lowered = Lower(c, Materialise(c), contract);
    return lowered ? std::string() : lowered.error().reason;
  };
  Case c = GradientCase();
  EXPECT_EQ(why(c, Parse(R"({"contract": "attest-1"})")), "no backward pass is offered");
  EXPECT_EQ(why(c, With(R"("value_dim")")), "q_heads != kv_heads is not offered");
  c.storage.past = 1;
  EXPECT_EQ(why(c, With(R"("gqa", "value_dim")")), "past keys and values are not offered");
}

// Causality that the forward pass alone takes as such.
TEST(LowerGradientsTest, AMaskStandsForWhatTheBackwardPassLacks) {
  Case c = GradientCase();
  c.problem.causal = true;
  EXPECT_FALSE(MustLower(c, With(R"("gqa", "value_dim", "causal")")).via_mask);
  const Lowered lowered = MustLower(c, With(R"("gqa", "value_dim", "mask")"));
  EXPECT_TRUE(lowered.via_mask);
  EXPECT_EQ(FindOption(lowered.call, ATTEST_OPTION_CAUSAL), nullptr);
}

TEST(LowerGradientsTest, WhatComesBackIsLifted) {
  const Case c = GradientCase();
  const Contract contract = With(R"("gqa", "value_dim")");
  const Lowered lowered = MustLower(c, contract);
  CallResult result;
  result.status = CallStatus::kOk;
  double next = 0;
  for (const CallTensor& t : lowered.call.tensors) {
    if (!t.is_output) continue;
    result.outputs.push_back(t.image);
    for (size_t at = 0; at < t.image.size(); at += ByteSize(t.dtype)) {
      StoreElement(t.dtype, result.outputs.back().data() + at, next++);
    }
  }
  const Outcome outcome = Lift(c, contract, lowered, result);
  // Behind 8 elements of out and 4 of the lse.
  EXPECT_EQ(outcome.dq.At(0, 0, 0, 0), 12);
  EXPECT_EQ(outcome.dk.At(0, 0, 0, 0), 28);
  EXPECT_EQ(outcome.dv.At(0, 0, 2, 1), 45);
}

}  // namespace
}  // namespace attest
