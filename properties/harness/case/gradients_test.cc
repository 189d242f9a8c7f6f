#include "properties/harness/case/gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/case/bytes.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/shrink.h"
#include "properties/harness/case/slice.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Case GradientCase() {
  Case c;
  c.problem.batch = 2;
  c.problem.q_len = 3;
  c.problem.kv_len = 2;
  c.problem.value_dim = 2;
  c.problem.want_gradients = true;
  c.recipe.dout = ValueFamily::kNormal;
  return c;
}

TEST(GradientCaseTest, DoutIsThereWhereGradientsAreWantedAndChangesNoOtherHash) {
  Case c = GradientCase();
  EXPECT_EQ(Materialise(c).dout.shape, c.problem.OutShape());
  Case without = c;
  without.problem.want_gradients = false;
  EXPECT_TRUE(Materialise(without).dout.empty());
  EXPECT_NE(HashInputs(Materialise(c)), HashInputs(Materialise(without)));
  without.recipe.dout = ValueFamily::kOnes;
  EXPECT_EQ(Materialise(c).q.values, Materialise(without).q.values);
}

TEST(GradientCaseTest, DoutOfPaddingIsZero) {
  Case c = GradientCase();
  c.recipe.dout = ValueFamily::kOnes;
  c.problem.query_lengths = {3, 1};
  c.overrides.push_back({DataTensor::kDout, {1, 0, 2, 0}, 7});
  EXPECT_THAT(Materialise(c).dout.values, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
}

TEST(GradientCaseTest, TextRoundTripKeepsEverything) {
  Case c = GradientCase();
  c.overrides.push_back({DataTensor::kDout, {0, 0, 1, 1}, -2});
  c.literals[DataTensor::kDout] = Materialise(c).dout;
  const std::string text = ToToml({c, {}, {}, {}});
  EXPECT_THAT(text, HasSubstr("want_gradients = true"));
  const auto parsed = ParseToml(text, "x.toml");
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_TRUE(SameCase(parsed->c, c)) << text;
}

TEST(GradientCaseTest, WhatNamesDoutWithoutGradientsIsAMistake) {
  Case c;
  c.overrides.push_back({DataTensor::kDout, {0, 0, 0, 0}, 1});
  EXPECT_EQ(Validate(c), "set: the problem wants no gradients");
  Case fp8 = GradientCase();
  fp8.problem.fp8.emplace();
  EXPECT_EQ(Validate(fp8), "want_gradients: there are none of fp8 problems");
}

TEST(GradientCaseTest, CuttingQueriesAndLanesCutsDout) {
  Case c = GradientCase();
  c.literals[DataTensor::kDout] = Materialise(c).dout;
  const Case cut = Select(Select(c, Axis::kQLen, {2}), Axis::kValueDim, {1});
  EXPECT_EQ(Validate(cut), std::nullopt);
  EXPECT_EQ(Materialise(cut).dout.At(1, 0, 0, 0), Materialise(c).dout.At(1, 0, 2, 1));
}

TEST(GradientCaseTest, ShrinkingEndsWithoutGradientsUnlessTheyMatter) {
  const auto smallest = [](bool matters) {
    const auto fails = [=](const Case& c) { return !matters || c.problem.want_gradients; };
    return Shrink(GradientCase(), fails).smallest;
  };
  EXPECT_FALSE(smallest(false).problem.want_gradients);
  EXPECT_TRUE(smallest(true).problem.want_gradients);
  EXPECT_EQ(smallest(true).recipe.dout, ValueFamily::kOnes);
}

TEST(GradientCaseTest, NoRecordHoldsOne) {
  EXPECT_FALSE(EncodeCase(GradientCase()));
}

TEST(GradientCaseTest, TheBackwardContractHasTheFeaturesOfItsCallsAlone) {
  const auto contract = ParseContract(R"({"contract": "attest-1", "backward": ["causal", "gqa"]})");
  ASSERT_TRUE(contract) << contract.error();
  const Contract backward = BackwardContract(*contract);
  EXPECT_TRUE(backward.Has(Feature::kCausal));
  EXPECT_FALSE(backward.Has(Feature::kMask));
  EXPECT_TRUE(backward.scores.empty());
}

}  // namespace
}  // namespace attest
