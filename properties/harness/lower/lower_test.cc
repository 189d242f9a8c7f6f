#include "properties/harness/lower/lower.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/lower/tensor_image.h"
#include "properties/harness/lower/testing.h"

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(LowerTest, CausalityJoinsAMaskThatItDoesNotGoWith) {
  Case c = SmallCase();
  c.problem.causal = true;
  c.problem.mask = BitPlane{{1, 1, 2, 3}, 4, {1, 0, 1, 0, 1, 1}};
  const Contract contract = Parse(R"({"contract": "attest-1", "excludes": ["causal_with_mask"]})");
  const Lowered moved = MustLower(c, contract);
  EXPECT_TRUE(moved.via_mask);
  EXPECT_EQ(FindOption(moved.call, ATTEST_OPTION_CAUSAL), nullptr);
  EXPECT_THAT(MaskBytes(moved.call), ElementsAre(1, 0, 0, 0, 1, 0));
  c.problem.mask.reset();
  EXPECT_FALSE(MustLower(c, contract).via_mask);
  c.problem.bias = BitPlane{{1, 1, 1, 3}, 4, {1, 1, 0}};
  EXPECT_FALSE(MustLower(c, contract).via_mask);
  const Lowered with_bias =
      MustLower(c, Parse(R"({"contract": "attest-1", "excludes": ["causal_with_bias"]})"));
  EXPECT_TRUE(with_bias.via_mask);
  EXPECT_EQ(FindOption(with_bias.call, ATTEST_OPTION_CAUSAL), nullptr);
}

TEST(LowerTest, AKernelThatIsAlwaysCausalIsAskedNothingElse) {
  const Contract contract = Parse(R"({"contract": "attest-1", "causal": "always"})");
  Case c = SmallCase();
  auto lowered = Lower(c, Materialise(c), contract);
  ASSERT_FALSE(lowered);
  EXPECT_THAT(lowered.error().reason, HasSubstr("not causal"));
  c.problem.causal = true;
  EXPECT_NE(FindOption(MustLower(c, contract).call, ATTEST_OPTION_CAUSAL), nullptr);
  // Nor is causality moved into a mask.
  Contract zero = contract;
  zero.causal_offset = {CausalOffset::kZero};
  c.problem.diagonal_offset = {1};
  EXPECT_FALSE(Lower(c, Materialise(c), zero));
}

TEST(LowerTest, WhereWindowsHaveNoRightEndCausalityIsOneOrAMaskIs) {
  const Contract left = Parse(R"({"contract": "attest-1", "window_sides": "left"})");
  const Contract if_causal = Parse(R"({"contract": "attest-1", "window_sides": "left_if_causal"})");
  const auto asked = [](bool causal, Window window, const Contract& contract) {
    Case c = SmallCase();
    c.problem.causal = causal;
    c.problem.window = window;
    const Lowered lowered = MustLower(c, contract);
    const bool has_right = FindOption(lowered.call, ATTEST_OPTION_WINDOW_RIGHT) != nullptr;
    const bool has_left = FindOption(lowered.call, ATTEST_OPTION_WINDOW_LEFT) != nullptr;
    const bool is_causal = FindOption(lowered.call, ATTEST_OPTION_CAUSAL) != nullptr;
    EXPECT_FALSE(has_right);
    return std::string(lowered.via_mask ? "mask"
                       : has_left       ? "left"
                                        : "none") +
           (is_causal ? " causal" : "");
  };
  EXPECT_EQ(asked(false, {1, {}}, left), "left");
  EXPECT_EQ(asked(false, {1, {}}, if_causal), "mask");
  EXPECT_EQ(asked(true, {1, {}}, if_causal), "left causal");
  EXPECT_EQ(asked(true, {1, 2}, left), "left causal");
  EXPECT_EQ(asked(false, {1, 0}, if_causal), "left causal");
  EXPECT_EQ(asked(false, {{}, 0}, left), "none causal");
  EXPECT_EQ(asked(false, {1, 1}, left), "mask");
  EXPECT_EQ(asked(false, {{}, 1}, left), "mask");
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
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.softcap = 3; }), HasSubstr("softcap"));
  const std::string rich =
      R"({"dtypes": ["f32"], "features": ["key_lengths"], "excludes": ["fewer_keys_than_queries"]})";
  EXPECT_EQ(reason(rich, [](Case& c) { c.problem.q_len = c.problem.kv_len; }), "(supported)");
  EXPECT_THAT(reason(rich, [](Case& c) { c.problem.q_len = c.problem.kv_len + 1; }),
              HasSubstr("keys for"));
  EXPECT_THAT(reason(rich, [](Case& c) { c.problem.key_lengths = {1}; }),
              HasSubstr("1 keys for 2"));
  const std::string scaled = R"({"dtypes": ["f32"], "excludes": ["zero_scale"]})";
  EXPECT_EQ(reason(scaled, [](Case& c) { c.problem.scale = 1; }), "(supported)");
  EXPECT_THAT(reason(scaled, [](Case& c) { c.problem.scale = -0.0; }), HasSubstr("scale of -0"));
  EXPECT_THAT(reason(scaled, [](Case& c) { c.problem.scale = 1e-311; }),
              HasSubstr("scale of 1e-311"));
  EXPECT_EQ(reason(scaled, [](Case& c) { c.problem.scale = -1; }), "(supported)");
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.sinks = {3}; }), HasSubstr("sinks"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.alibi_slopes = {3}; }), HasSubstr("alibi"));
  EXPECT_THAT(reason(bare, [](Case& c) { c.problem.want_scores = ScoreMode::kRaw; }),
              HasSubstr("scores output of raw"));
  EXPECT_THAT(reason(bare,
                     [](Case& c) {
                       c.problem.documents = Documents{{1, 1}, {1, 1, 1}};
                     }),
              HasSubstr("documents"));
  EXPECT_THAT(reason(bare,
                     [](Case& c) {
                       c.problem.dropout = Dropout{0, {{1, 1, 2, 3}, 4, {1, 1, 1, 1, 1, 1}}};
                     }),
              HasSubstr("dropout"));
  EXPECT_THAT(reason(R"({"dtypes": ["f16"], "features": ["bias"]})",
                     [](Case& c) {
                       c.problem.dtype = DType::kF16;
                       c.problem.bias = BitPlane{{1, 1, 1, 1}, 4, {1}};
                       c.problem.bias_dtype = DType::kF32;
                     }),
              HasSubstr("f32 additive mask"));
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
    const auto layout = static_cast<Layout>(n);
    if (layout == Layout::kSharedHead) continue;  // there they share a place
    const std::vector<int64_t> strides = StridesOf(shape, {layout, {7, 6}});
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

TEST(LowerTest, PartsOfFarTensorsLieBeyond32Bits) {
  Case c = SmallCase();
  c.problem.batch = c.problem.q_heads = c.problem.kv_heads = 2;
  const auto gap = static_cast<int64_t>(kFarGapBytes / 4);
  const int64_t keys = c.problem.kv_len, rows = c.problem.q_len, dim = c.problem.head_dim;
  c.layouts.k = Layout::kFarHeads;
  c.layouts.q = Layout::kFarRows;
  const Call call = MustLower(c, Strict()).call;
  const CallTensor &k = *Find(call, ATTEST_ROLE_K), &q = *Find(call, ATTEST_ROLE_Q);
  EXPECT_EQ(k.far_parts, 4);
  EXPECT_THAT(k.KernelStrides(), ElementsAre(2 * (keys * dim + gap), keys * dim + gap, dim, 1));
  EXPECT_EQ(q.far_parts, 2 * rows);
  EXPECT_THAT(q.KernelStrides(), ElementsAre(rows * (2 * dim + gap), dim, 2 * dim + gap, 1));
  for (const CallTensor* t : {&k, &q}) {
    EXPECT_EQ(t->image.size(), 4 * static_cast<size_t>(ExtentOf(t->shape, t->strides)));
  }
  c.problem.batch = kMaxFarParts;
  EXPECT_EQ(Find(MustLower(c, Strict()).call, ATTEST_ROLE_K)->far_parts, 1)
      << "too many parts lie near";
}

TEST(LowerTest, PackedQkvLeavesRoomForTheOthersAndSharedHeadsTakeNone) {
  Case c = SmallCase();
  c.problem.q_heads = 4;
  c.problem.kv_heads = 2;
  c.problem.value_dim = 3;
  c.layouts = {Layout::kPackedQkv, Layout::kPackedQkv, Layout::kSharedHead, Layout::kBhsd};
  const Call call = MustLower(c, Strict()).call;
  // [batch, len, 4 + 2 * 2 heads, 3]
  EXPECT_THAT(Find(call, ATTEST_ROLE_Q)->strides, ElementsAre(48, 3, 24, 1));
  EXPECT_THAT(Find(call, ATTEST_ROLE_K)->strides, ElementsAre(72, 3, 24, 1));
  EXPECT_THAT(Find(call, ATTEST_ROLE_V)->strides, ElementsAre(9, 0, 3, 1));
  EXPECT_EQ(Find(call, ATTEST_ROLE_V)->image.size(), 9 * 4u);
}

float FloatOf(const CallTensor& t, size_t n) {
  float value;
  std::memcpy(&value, t.image.data() + n * sizeof value, sizeof value);
  return value;
}

TEST(LowerTest, EveryFeatureHasItsTensorsAndOptions) {
  Case c = SmallCase();
  Problem& p = c.problem;
  p.q_heads = p.kv_heads = 2;
  p.causal = true;
  p.query_lengths = {1};
  p.prefix_lengths = {2};
  p.documents = Documents{{5, 6}, {5, 6, 6}};
  p.block_mask = BlockMask{2, 1, {{1, 2, 1, 3}, 4, {1, 0, 1, 1, 1, 0}}};
  p.softcap = 30;
  p.alibi_slopes = {0.5, 0.25};
  p.sinks = {-1, 2};
  p.dropout = Dropout{0.5, {p.WeightsShape(), 4, std::vector<uint8_t>(12, 1)}};
  p.want_scores = ScoreMode::kBiased;
  const Call call = MustLower(c, Everything()).call;
  EXPECT_THAT(IntegersOf(*Find(call, ATTEST_ROLE_QUERY_LENGTHS)), ElementsAre(1));
  EXPECT_THAT(IntegersOf(*Find(call, ATTEST_ROLE_PREFIX_LENGTHS)), ElementsAre(2));
  EXPECT_THAT(IntegersOf(*Find(call, ATTEST_ROLE_DOCUMENT_IDS)), ElementsAre(5, 6));
  EXPECT_THAT(IntegersOf(*Find(call, ATTEST_ROLE_KEY_DOCUMENT_IDS)), ElementsAre(5, 6, 6));
  EXPECT_THAT(Find(call, ATTEST_ROLE_BLOCK_MASK)->shape, ElementsAre(1, 2, 1, 3));
  EXPECT_EQ(int(Find(call, ATTEST_ROLE_BLOCK_MASK)->image[1]), 0);
  EXPECT_EQ(FindOption(call, ATTEST_OPTION_BLOCK_Q)->i, 2);
  EXPECT_EQ(FindOption(call, ATTEST_OPTION_BLOCK_K)->i, 1);
  EXPECT_EQ(FindOption(call, ATTEST_OPTION_SOFTCAP)->f, 30);
  EXPECT_EQ(FloatOf(*Find(call, ATTEST_ROLE_ALIBI_SLOPES), 1), 0.25f);
  EXPECT_EQ(FloatOf(*Find(call, ATTEST_ROLE_SINKS), 0), -1);
  EXPECT_THAT(Find(call, ATTEST_ROLE_DROPOUT_MASK)->shape, ElementsAre(1, 2, 2, 3));
  EXPECT_EQ(FindOption(call, ATTEST_OPTION_DROPOUT)->f, 0.5);
  EXPECT_EQ(FindOption(call, ATTEST_OPTION_SCORES)->i, 2);
  EXPECT_THAT(Find(call, ATTEST_ROLE_SCORES)->shape, ElementsAre(1, 2, 2, 3));
}

TEST(LowerTest, VisibilityThatIsNotOfferedBecomesOneMask) {
  Case c = SmallCase();
  Problem& p = c.problem;
  p.causal = true;
  p.prefix_lengths = {2};
  p.documents = Documents{{5, 6}, {5, 6, 6}};
  p.block_mask = BlockMask{1, 2, {{1, 1, 2, 2}, 4, {1, 1, 1, 0}}};
  Contract contract = Everything();
  for (const Feature f : {Feature::kPrefixLengths, Feature::kDocuments, Feature::kBlockMask}) {
    contract.features.erase(f);
  }
  const Lowered lowered = MustLower(c, contract);
  EXPECT_TRUE(lowered.via_mask);
  // Row 0: keys 0 and 1 by the prefix, 0 by its document. Row 1: 1 and 2 by document, 0 and 1 by block.
  EXPECT_THAT(MaskBytes(lowered.call), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_EQ(FindOption(lowered.call, ATTEST_OPTION_CAUSAL), nullptr);
  EXPECT_EQ(lowered.call.tensors.size(), 5u) << "q, k, v, mask, out";
}

TEST(LowerTest, AlibiBecomesAnAdditiveMaskWhereThatIsExact) {
  Case c = SmallCase();
  c.problem.dtype = DType::kF16;
  c.problem.causal = true;
  c.problem.diagonal_offset = {1};
  c.problem.alibi_slopes = {0.5};
  Contract contract = Everything();
  contract.features.erase(Feature::kAlibi);
  const Lowered lowered = MustLower(c, contract);
  EXPECT_TRUE(lowered.via_mask);
  EXPECT_EQ(Find(lowered.call, ATTEST_ROLE_ALIBI_SLOPES), nullptr);
  const CallTensor& bias = *Find(lowered.call, ATTEST_ROLE_BIAS);
  EXPECT_EQ(bias.dtype, DType::kF16);
  std::vector<double> values;
  for (size_t n = 0; n < 6; ++n) values.push_back(LoadElement(bias.dtype, &bias.image[2 * n]));
  EXPECT_THAT(values, ElementsAre(-0.5, 0, 0, -1, -0.5, 0)) << "nothing where a key is hidden";

  c.problem.alibi_slopes = {RoundTo(DType::kF32, 0.1)};  // no f16 value
  EXPECT_EQ(Find(MustLower(c, contract).call, ATTEST_ROLE_BIAS)->dtype, DType::kF32);
  contract.features.erase(Feature::kBiasF32);
  const auto lowered_again = Lower(c, Materialise(c), contract);
  ASSERT_FALSE(lowered_again);
  EXPECT_THAT(lowered_again.error().reason, HasSubstr("alibi"));
}

TEST(LowerTest, AlibiWithAMaskAddsToTheBiasThatIsThere) {
  Case c = SmallCase();
  c.problem.bias = BitPlane{{1, 1, 1, 3}, 4, {1, 1, 0}};
  c.problem.mask = BitPlane{{1, 1, 1, 3}, 4, {0, 1, 1}};
  c.problem.alibi_slopes = {2};
  c.literals[DataTensor::kBias] = Array({1, 1, 1, 3}, 10);
  c.literals[DataTensor::kBias].values[2] = -INFINITY;
  Contract contract = Everything();
  contract.features.erase(Feature::kAlibi);
  contract.features.erase(Feature::kMask);
  const CallTensor bias = *Find(MustLower(c, contract).call, ATTEST_ROLE_BIAS);
  std::vector<float> values;
  for (size_t n = 0; n < 6; ++n) values.push_back(FloatOf(bias, n));
  EXPECT_THAT(values, ElementsAre(-INFINITY, 8, -INFINITY, -INFINITY, 10, -INFINITY));
}

TEST(LowerTest, EightBitInputsAreStoredInUnitsOfTheirScale) {
  Case c = SmallCase();
  c.problem.fp8 = Fp8{DType::kE4M3, 0.5, 2, 1};
  c.literals[DataTensor::kK] = Array(c.problem.KShape(), -6);
  const Call call = MustLower(c, Everything()).call;
  const CallTensor& k = *Find(call, ATTEST_ROLE_K);
  EXPECT_EQ(k.dtype, DType::kE4M3);
  EXPECT_EQ(LoadElement(k.dtype, &k.image[3]), -3);
  EXPECT_EQ(FloatOf(*Find(call, ATTEST_ROLE_Q_SCALE), 0), 0.5f);
  EXPECT_EQ(FloatOf(*Find(call, ATTEST_ROLE_K_SCALE), 0), 2);
  EXPECT_EQ(FindOption(call, ATTEST_OPTION_FP8)->i, 1);
  EXPECT_EQ(Find(call, ATTEST_ROLE_OUT)->dtype, DType::kF32);
  Contract contract = Everything();
  contract.fp8 = {DType::kE5M2};
  EXPECT_THAT(Lower(c, Materialise(c), contract).error().reason, HasSubstr("e4m3"));
}

TEST(LowerTest, PaddedRowsAreExcusedOrAskedForAsTheContractSays) {
  Case c = SmallCase();
  c.problem.query_lengths = {1};
  c.problem.want_lse = true;
  Contract contract = Everything();
  contract.padded_query_rows = PaddedQueryRows::kUnwritten;
  const Call call = MustLower(c, contract).call;
  EXPECT_THAT(Find(call, ATTEST_ROLE_OUT)->may_stay_unwritten, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(Find(call, ATTEST_ROLE_LSE)->may_stay_unwritten, ElementsAre(0, 1));
  contract.features.erase(Feature::kQueryLengths);
  EXPECT_THAT(Lower(c, Materialise(c), contract).error().reason, HasSubstr("query_lengths"));
  contract.padded_query_rows = PaddedQueryRows::kUnspecified;
  const Call dropped = MustLower(c, contract).call;
  EXPECT_EQ(Find(dropped, ATTEST_ROLE_QUERY_LENGTHS), nullptr);
  EXPECT_TRUE(Find(dropped, ATTEST_ROLE_OUT)->may_stay_unwritten.empty());
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

TEST(LowerTest, WhatMayStayUnwrittenIsLiftedAsZero) {
  Case c = SmallCase();
  c.problem.query_lengths = {1};
  Contract contract = Everything();
  contract.padded_query_rows = PaddedQueryRows::kUnwritten;
  const Lowered lowered = MustLower(c, contract);
  CallResult result;
  result.status = CallStatus::kOk;
  const float out[] = {1, 2, NAN, NAN};
  const auto* bytes = reinterpret_cast<const std::byte*>(out);
  result.outputs.emplace_back(bytes, bytes + sizeof out);
  EXPECT_THAT(Lift(c, contract, lowered, result).out.values, ElementsAre(1, 2, 0, 0));
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
