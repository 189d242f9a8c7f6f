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

TEST(LowerGradientsTest, BiasAndSinksHaveGradientsWhereTheContractSaysSo) {
  Case c = GradientCase();
  c.problem.bias = BitPlane{{1, 1, 2, 3}, 2, {1, 1, 0, 1, 1, 1}};
  c.problem.sinks = {0.5, 1};
  const std::string carried =
      R"("gqa", "value_dim", "bias", "mask_broadcast", "mask_ranks", "sinks")";
  const Call plain = MustLower(c, With(carried)).call;
  EXPECT_EQ(Find(plain, ATTEST_ROLE_DBIAS), nullptr);
  EXPECT_EQ(Find(plain, ATTEST_ROLE_DSINK), nullptr);
  const Call call = MustLower(c, With(carried + R"(, "dbias", "dsink")")).call;
  EXPECT_TRUE(Find(call, ATTEST_ROLE_DBIAS)->is_output);
  EXPECT_THAT(Find(call, ATTEST_ROLE_DBIAS)->shape, ElementsAre(2, 3));
  EXPECT_THAT(Find(call, ATTEST_ROLE_DSINK)->shape, ElementsAre(2));
}

// What a kernel gave: 0, 1, 2, ... through all outputs.
Outcome LiftedCount(const Case& c, const Contract& contract) {
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
  return Lift(c, contract, lowered, result);
}

TEST(LowerGradientsTest, WhatComesBackIsLifted) {
  const Case c = GradientCase();
  const Contract contract = With(R"("gqa", "value_dim")");
  const Outcome outcome = LiftedCount(c, contract);
  // Behind 8 elements of out and 4 of the lse.
  EXPECT_EQ(outcome.dq.At(0, 0, 0, 0), 12);
  EXPECT_EQ(outcome.dk.At(0, 0, 0, 0), 28);
  EXPECT_EQ(outcome.dv.At(0, 0, 2, 1), 45);
  EXPECT_TRUE(outcome.dbias.empty());
}

TEST(LowerGradientsTest, PackedCallsHavePackedGradients) {
  Case c = GradientCase();
  c.problem.batch = 2;
  c.problem.query_lengths = {2, 1};
  c.problem.key_lengths = {3, 1};
  c.storage.packed = true;
  const Contract contract = With(R"("gqa", "value_dim", "packed")");
  const Call call = MustLower(c, contract).call;
  EXPECT_THAT(Find(call, ATTEST_ROLE_DOUT)->shape, ElementsAre(3, 2, 2));
  EXPECT_THAT(Find(call, ATTEST_ROLE_DQ)->shape, ElementsAre(3, 2, 4));
  EXPECT_THAT(Find(call, ATTEST_ROLE_DK)->shape, ElementsAre(4, 1, 4));
  EXPECT_THAT(Find(call, ATTEST_ROLE_DV)->shape, ElementsAre(4, 1, 2));
  // Behind 12 elements of out and 6 of the lse; item 1 begins at row 2 and key 3.
  const Outcome outcome = LiftedCount(c, contract);
  EXPECT_EQ(outcome.dq.At(1, 0, 0, 0), 18 + 2 * 8);
  EXPECT_EQ(outcome.dq.At(1, 0, 1, 0), 0);
  EXPECT_EQ(outcome.dk.At(1, 0, 0, 0), 42 + 3 * 4);
  EXPECT_EQ(outcome.dk.At(1, 0, 1, 0), 0);
  EXPECT_EQ(outcome.dv.At(0, 0, 2, 1), 58 + 2 * 2 + 1);
}

TEST(LowerGradientsTest, TheGradientOfABiasIsLiftedWhereItIsTheCasesOwn) {
  Case c = GradientCase();
  c.problem.bias = BitPlane{{1, 1, 2, 3}, 2, {1, 1, 0, 1, 1, 1}};
  c.problem.sinks = {0.5, 1};
  const Contract contract = With(
      R"("gqa", "value_dim", "bias", "mask_broadcast", "mask_ranks", "sinks", "dbias", "dsink")");
  const Outcome outcome = LiftedCount(c, contract);
  EXPECT_EQ(outcome.dbias.shape, (Shape4{1, 1, 2, 3}));
  EXPECT_EQ(outcome.dbias.At(0, 0, 1, 2), 51);  // behind 46 elements
  EXPECT_EQ(outcome.dsink.shape, (Shape4{1, 2, 1, 1}));
  EXPECT_EQ(outcome.dsink.At(0, 1, 0, 0), 53);
  // Causality becomes part of the bias, which is then one of every pair.
  c.problem.causal = true;
  EXPECT_TRUE(LiftedCount(c, contract).dbias.empty());
}

}  // namespace
}  // namespace attest
