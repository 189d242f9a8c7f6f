#include "properties/harness/lower/lower.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/lower/tensor_image.h"

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Contract Parse(const std::string& json) {
  const auto contract = ParseContract(json);
  EXPECT_TRUE(contract) << contract.error();
  return *contract;
}

Contract Strict() {
  return Parse(R"({"contract": "attest-1"})");
}

Case SmallCase() {
  Case c;
  c.problem.q_len = 2;
  c.problem.kv_len = 3;
  c.problem.head_dim = c.problem.value_dim = 2;
  c.recipe.scores = ScoreFamily::kSmallIntegers;
  return c;
}

Lowered MustLower(const Case& c, const Contract& contract) {
  EXPECT_EQ(Validate(c), std::nullopt);
  auto lowered = Lower(c, Materialise(c), contract);
  EXPECT_TRUE(lowered) << lowered.error().reason;
  return *lowered;
}

const CallTensor* Find(const Call& call, int32_t role) {
  for (const CallTensor& t : call.tensors) {
    if (t.role == role) return &t;
  }
  return nullptr;
}

const CallOption* FindOption(const Call& call, int32_t id) {
  for (const CallOption& o : call.options) {
    if (o.id == id) return &o;
  }
  return nullptr;
}

std::vector<int> MaskBytes(const Call& call) {
  std::vector<int> bytes;
  for (const std::byte b : Find(call, ATTEST_ROLE_MASK)->image) bytes.push_back(int(b));
  return bytes;
}

TEST(LowerTest, ThePlainCallHasQKVOutAndTheScale) {
  const Lowered lowered = MustLower(SmallCase(), Strict());
  EXPECT_EQ(lowered.call.tensors.size(), 4u);
  EXPECT_THAT(Find(lowered.call, ATTEST_ROLE_K)->shape, ElementsAre(1, 1, 3, 2));
  EXPECT_EQ(Find(lowered.call, ATTEST_ROLE_OUT)->image.size(), 2 * 2 * 4u);
  EXPECT_NEAR(FindOption(lowered.call, ATTEST_OPTION_SCALE)->f, 0.70710678, 1e-8);
  EXPECT_FALSE(lowered.via_mask);
}

TEST(LowerTest, PolarityFollowsTheContract) {
  Case c = SmallCase();
  c.problem.mask = BitPlane{{1, 1, 1, 3}, 2, {1, 0, 1}};
  EXPECT_THAT(MaskBytes(MustLower(c, Strict()).call), ElementsAre(1, 0, 1));
  EXPECT_THAT(
      MaskBytes(MustLower(c, Parse(R"({"contract": "attest-1", "mask_true_means": "hide"})")).call),
      ElementsAre(0, 1, 0));
}

TEST(LowerTest, TheWindowCountsAsTheContractDoes) {
  Case c = SmallCase();
  c.problem.window = {1, 0};
  const auto left = [&](const Contract& contract) {
    return FindOption(MustLower(c, contract).call, ATTEST_OPTION_WINDOW_LEFT)->i;
  };
  EXPECT_EQ(left(Strict()), 1);
  EXPECT_EQ(left(Parse(R"({"contract": "attest-1", "window_counts": "keys_with_diagonal"})")), 2);
}

TEST(LowerTest, AnImplicitDiagonalNeedsNoTensorAndAnotherOneBecomesAMask) {
  Case c = SmallCase();
  c.problem.causal = true;
  c.problem.diagonal_offset = {1};  // bottom right
  const Contract bottom_right =
      Parse(R"({"contract": "attest-1", "causal_offset": ["kv_len_minus_q_len"]})");
  const Lowered fits = MustLower(c, bottom_right);
  EXPECT_NE(FindOption(fits.call, ATTEST_OPTION_CAUSAL), nullptr);
  EXPECT_EQ(Find(fits.call, ATTEST_ROLE_DIAGONAL_OFFSET), nullptr);
  EXPECT_NE(Find(MustLower(c, Strict()).call, ATTEST_ROLE_DIAGONAL_OFFSET), nullptr);

  const Lowered moved =
      MustLower(c, Parse(R"({"contract": "attest-1", "causal_offset": ["zero"]})"));
  EXPECT_TRUE(moved.via_mask);
  EXPECT_EQ(FindOption(moved.call, ATTEST_OPTION_CAUSAL), nullptr);
  EXPECT_THAT(MaskBytes(moved.call), ElementsAre(1, 1, 0, 1, 1, 1));
}

TEST(LowerTest, AMaskBecomesABiasWhereOnlyThatIsOffered) {
  Case c = SmallCase();
  c.problem.mask = BitPlane{{1, 1, 2, 3}, 4, {1, 0, 1, 0, 0, 1}};
  c.problem.bias = BitPlane{{1, 1, 1, 3}, 4, {1, 1, 0}};
  c.recipe.bias = BiasFamily::kSmallIntegers;
  const Inputs inputs = Materialise(c);
  const Contract contract =
      Parse(R"({"contract": "attest-1", "features": ["bias", "mask_broadcast"]})");
  const Lowered lowered = MustLower(c, contract);
  EXPECT_TRUE(lowered.via_mask);
  EXPECT_EQ(Find(lowered.call, ATTEST_ROLE_MASK), nullptr);
  const CallTensor& bias = *Find(lowered.call, ATTEST_ROLE_BIAS);
  ASSERT_THAT(bias.shape, ElementsAre(1, 1, 2, 3));
  float values[6];
  std::memcpy(values, bias.image.data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(inputs.bias.values[0], -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                                  -INFINITY));
}

TEST(LowerTest, WhatTheContractLacksIsRefusedWithAReason) {
  const auto reason = [](const std::string& json, auto change) {
    Case c = SmallCase();
    change(c);
    const auto lowered = Lower(c, Materialise(c), Parse(json));
    return lowered ? "(supported)" : lowered.error().reason;
  };
  const std::string bare = R"({"dtypes": ["f32"], "limits": {"max_kv_len": 3}})";
  EXPECT_EQ(reason(bare, [](Case&) {}), "(supported)");
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.dtype = DType::kF16; }), HasSubstr("dtype f16"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.kv_len = 4; }), HasSubstr("kv_len = 4"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.kv_len = 0; }), HasSubstr("size of 0"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.q_heads = 2; }), HasSubstr("q_heads"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.value_dim = 3; }), HasSubstr("value_dim"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.causal = true; }), HasSubstr("causal"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.key_lengths = {1}; }), HasSubstr("key_lengths"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.layouts.k = Layout::kGapped; }), HasSubstr("gapped"));
  EXPECT_THAT(reason(bare,
                     [](Case& c) {
                       c.problem.mask = BitPlane{{1, 1, 1, 1}, 4, {1}};
                     }),
              HasSubstr("mask"));
}

TEST(LowerTest, OutputsThatTheContractLacksAreNotAskedFor) {
  Case c = SmallCase();
  c.problem.want_lse = c.problem.want_weights = true;
  EXPECT_NE(Find(MustLower(c, Strict()).call, ATTEST_ROLE_LSE), nullptr);
  const Lowered plain = MustLower(c, Parse(R"({"dtypes": ["f32"]})"));
  EXPECT_EQ(Find(plain.call, ATTEST_ROLE_LSE), nullptr);
  EXPECT_EQ(Find(plain.call, ATTEST_ROLE_WEIGHTS), nullptr);
}

TEST(LowerTest, EveryLayoutHoldsEachElementAtItsStride) {
  const Shape4 shape{2, 3, 4, 5};
  for (int n = 0; n < kLayoutCount; ++n) {
    const std::vector<int64_t> strides = StridesOf(shape, static_cast<Layout>(n));
    std::vector<int64_t> seen;
    for (int64_t flat = 0; flat < ElementCount(shape); ++flat) {
      const int64_t d = flat % 5, i = flat / 5 % 4, h = flat / 20 % 3, b = flat / 60;
      seen.push_back(b * strides[0] + h * strides[1] + i * strides[2] + d * strides[3]);
    }
    std::ranges::sort(seen);
    EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end()) << "two elements share a place";
    EXPECT_EQ(seen.back() + 1, ExtentOf({2, 3, 4, 5}, strides));
  }
  EXPECT_EQ(ExtentOf({2, 0, 4, 5}, {0, 0, 5, 1}), 0);
}

// Hands the call's own output storage back, filled by `value_at` of the logical element.
TEST(LowerTest, LiftUndoesTheLayoutAndTheBaseOfTheLse) {
  Case c = SmallCase();
  c.layouts.out = Layout::kTransposed;
  c.problem.want_lse = true;
  const Contract base2 = Parse(R"({"contract": "attest-1", "lse": "base2"})");
  const Lowered lowered = MustLower(c, base2);
  CallResult result;
  result.status = CallStatus::kOk;
  const float out[] = {0, 10, 1, 11};  // lanes outermost: (query, lane) at lane * 2 + query
  const float lse[] = {1, 2};
  for (const auto& [data, size] : {std::pair<const float*, size_t>{out, 4}, {lse, 2}}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    result.outputs.emplace_back(bytes, bytes + size * sizeof(float));
  }
  const Outcome outcome = Lift(c, base2, lowered, result);
  ASSERT_EQ(outcome.status, OutcomeStatus::kComputed);
  EXPECT_THAT(outcome.out.values, ElementsAre(0, 1, 10, 11));
  EXPECT_NEAR(outcome.lse.values[1], 2 * 0.6931471805599453, 1e-15);
}

TEST(LowerTest, ARefusalBreaksAPromiseAndAFaultStaysAFault) {
  const Case c = SmallCase();
  const Lowered lowered = MustLower(c, Strict());
  CallResult result;
  result.status = CallStatus::kUnsupported;
  result.message = "no";
  EXPECT_EQ(Lift(c, Strict(), lowered, result).status, OutcomeStatus::kRefused);
  EXPECT_EQ(Lift(c, Strict(), lowered, result).reason, "answered UNSUPPORTED: no");
  result.fault = Fault{FaultKind::kHang, 0, {}, 0, "passed the deadline"};
  EXPECT_EQ(Lift(c, Strict(), lowered, result).status, OutcomeStatus::kFault);
}

TEST(LowerTest, EveryDrawnCaseIsLoweredOrRefusedWithAReason) {
  for (const NamedContract& named : NamedContracts()) {
    const Contract contract = Parse("{\"contract\": \"" + std::string(named.name) + "\"}");
    int supported = 0;
    for (uint64_t seed = 0; seed < 500; ++seed) {
      const Case c = DrawCase(seed, 50, contract);
      const auto lowered = Lower(c, Materialise(c), contract);
      supported += lowered.has_value();
      if (!lowered) {
        EXPECT_FALSE(lowered.error().reason.empty());
      }
    }
    EXPECT_GT(supported, 400) << named.name;
  }
}

}  // namespace
}  // namespace attest
