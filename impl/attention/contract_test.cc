#include "impl/attention/contract.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using ::testing::HasSubstr;

TEST(ContractTest, EveryPublishedContractParses) {
  for (const NamedContract& named : NamedContracts()) {
    const auto contract = ParseContract("{\"contract\": \"" + std::string(named.name) + "\"}");
    ASSERT_TRUE(contract) << named.name << ": " << contract.error();
    EXPECT_EQ(contract->name, named.name);
    EXPECT_FALSE(named.source.empty());
  }
}

TEST(ContractTest, DifferencesReplaceTheNamedContractsValues) {
  const auto contract = ParseContract(R"({"contract": "attest-1", "dtypes": ["f16"],
      "features": ["mask"], "mask_true_means": "hide", "empty_row": "nan", "min_alignment": 64,
      "limits": {"max_kv_len": 128}, "numerics": {"exp_ulp": 2}, "options": {"tile": ["1", "2"]}})");
  ASSERT_TRUE(contract) << contract.error();
  EXPECT_EQ(contract->dtypes, EnumSet<DType>{DType::kF16});
  EXPECT_TRUE(contract->Has(Feature::kMask));
  EXPECT_FALSE(contract->Has(Feature::kBias));
  EXPECT_EQ(contract->mask_true_means, MaskPolarity::kHide);
  EXPECT_EQ(contract->semantics.empty_row, EmptyRow::kNan);
  EXPECT_EQ(contract->min_alignment, 64);
  EXPECT_EQ(contract->limits.max_kv_len, 128);
  EXPECT_EQ(contract->NumericsOf(DType::kF16).exp_ulp, 2);
  EXPECT_TRUE(contract->IsPoisonSafe(PoisonTensor::kV, PoisonPlace::kMask));
  EXPECT_EQ(contract->options.at("tile").size(), 2u);
}

TEST(ContractTest, ThereIsABackwardPassWhereTheKeyIsGivenAlone) {
  const auto without = ParseContract(R"({"contract": "attest-1"})");
  ASSERT_TRUE(without) << without.error();
  EXPECT_FALSE(without->backward);
  EXPECT_FALSE(without->HasBackward(Feature::kCausal));
  const auto with = ParseContract(R"({"contract": "attest-1", "backward": ["causal"]})");
  ASSERT_TRUE(with) << with.error();
  EXPECT_TRUE(with->HasBackward(Feature::kCausal));
  EXPECT_FALSE(with->HasBackward(Feature::kMask));
  const auto more = ParseContract(R"({"contract": "attest-1", "backward": ["bias", "dbias"]})");
  ASSERT_TRUE(more) << more.error();
  EXPECT_TRUE(more->HasBackward(Feature::kBiasGradient));
  EXPECT_FALSE(more->HasBackward(Feature::kSinkGradient));
}

TEST(ContractTest, NumericsHoldForEveryTypeOrForOne) {
  const auto contract = ParseContract(R"({"dtypes": ["f32", "f16", "bf16"], "numerics": {
      "f16": {"accumulate": "f16", "scale_placement": "storage"}, "exp_ulp": 8,
      "flush_to_zero": false, "summation_block": 64}})");
  ASSERT_TRUE(contract) << contract.error();
  const NumericsProfile& half = contract->NumericsOf(DType::kF16);
  EXPECT_EQ(half.accumulate, DType::kF16);
  EXPECT_EQ(half.probability, DType::kF16);
  EXPECT_EQ(half.scale_placement, ScalePlacement::kStorage);
  EXPECT_EQ(half.exp_ulp, 8);
  const NumericsProfile& single = contract->NumericsOf(DType::kF32);
  EXPECT_EQ(single.accumulate, DType::kF32);
  EXPECT_EQ(single.exp_ulp, 8);
  EXPECT_FALSE(single.flush_to_zero);
  EXPECT_EQ(single.summation_block, 64);
}

TEST(ContractTest, TheDefaultNumericsArePublishedPerType) {
  EXPECT_EQ(DefaultNumerics(DType::kF64).accumulate, DType::kF64);
  EXPECT_EQ(DefaultNumerics(DType::kBF16).accumulate, DType::kF32);
  EXPECT_EQ(DefaultNumerics(DType::kBF16).probability, DType::kBF16);
  NumericsProfile truncating;
  truncating.truncating_accumulators = true;
  EXPECT_EQ(AccumulationRoundoff(NumericsProfile{}), 0x1p-24);
  EXPECT_EQ(AccumulationRoundoff(truncating), 1.25 * 0x1p-23);
}

TEST(ContractTest, AMissingFieldIsNoPromise) {
  const auto contract = ParseContract(R"({"dtypes": ["f32"]})");
  ASSERT_TRUE(contract) << contract.error();
  EXPECT_TRUE(contract->features.empty());
  EXPECT_TRUE(contract->bits_invariant.empty());
  EXPECT_TRUE(contract->poison_safe.empty());
  EXPECT_EQ(contract->semantics.empty_row, EmptyRow::kUnspecified);
  EXPECT_EQ(contract->lse, LseKind::kNone);
}

struct Fact {
  const char* name;
  MaskPolarity mask_true_means;
  EnumSet<CausalOffset> causal_offset;
  WindowCounts window_counts;
  EmptyRow empty_row;
  LseKind lse;
};

// Where published systems disagree: the table that a reader checks against their documentation.
TEST(ContractTest, PublishedContractsDisagreeAsTheirSourcesDo) {
  using enum MaskPolarity;
  using enum CausalOffset;
  using enum WindowCounts;
  using enum LseKind;
  const Fact kFacts[] = {
      {"onnx-attention-25", kAttend, {kByInputs}, kKeysBesideDiagonal, EmptyRow::kZero, kNone},
      {"openvino-13", kAttend, {kZero}, kKeysBesideDiagonal, EmptyRow::kNan, kNone},
      {"torch-sdpa-2.5", kAttend, {kZero}, kKeysBesideDiagonal, EmptyRow::kZero, kNone},
      {"torch-mha", kHide, {}, kKeysBesideDiagonal, EmptyRow::kUnspecified, kNone},
      {"jax", kAttend, {kZero}, kKeysBesideDiagonal, EmptyRow::kMeanValue, kNone},
      {"mlx", kAttend, {kKvLenMinusQLen}, kKeysBesideDiagonal, EmptyRow::kUnspecified, kNone},
      {"flash-attention-2",
       kAttend,
       {kKeyLengthMinusQLen},
       kKeysBesideDiagonal,
       EmptyRow::kZero,
       kNatural},
      {"flashinfer", kAttend, {kKeyLengthMinusQLen}, kKeysBesideDiagonal, EmptyRow::kZero, kBase2},
      {"cudnn",
       kAttend,
       {kZero, kKeyLengthMinusQLen},
       kKeysWithDiagonal,
       EmptyRow::kZero,
       kNatural},
      {"transformer-engine",
       kHide,
       {kZero, kKvLenMinusQLen},
       kKeysBesideDiagonal,
       EmptyRow::kZero,
       kNone},
      {"ort-gqa", kAttend, {kKeyLengthMinusQLen}, kKeysWithDiagonal, EmptyRow::kUnspecified, kNone},
  };
  for (const Fact& fact : kFacts) {
    SCOPED_TRACE(fact.name);
    const auto c = ParseContract("{\"contract\": \"" + std::string(fact.name) + "\"}");
    ASSERT_TRUE(c) << c.error();
    EXPECT_EQ(c->mask_true_means, fact.mask_true_means);
    EXPECT_EQ(c->causal_offset, fact.causal_offset);
    EXPECT_EQ(c->window_counts, fact.window_counts);
    EXPECT_EQ(c->semantics.empty_row, fact.empty_row);
    EXPECT_EQ(c->lse, fact.lse);
  }
}

struct BadContract {
  const char* json;
  const char* says;
};

TEST(ContractTest, EveryMistakeGetsOneLineThatNamesIt) {
  const BadContract kBad[] = {
      {"{", "not valid JSON"},
      {"[]", "must be a JSON object"},
      {R"({"contract": "attest-9"})", "attest-9"},
      {R"({"contract": 3})", "contract: 3"},
      {R"({"dtypes": ["f8"]})", "f8"},
      {R"({"dtypes": "f32"})", "array"},
      {R"({"dtypes": []})", "dtypes is missing"},
      {R"({"dtypes": ["f32"], "mask_true": "attend"})", "mask_true"},
      {R"({"dtypes": ["f32"], "empty_row": 0})", "empty_row"},
      {R"({"dtypes": ["f32"], "min_alignment": 48})", "power of two"},
      {R"({"dtypes": ["f32"], "min_alignment": 18446744073709551615})", "min_alignment"},
      {R"({"dtypes": ["f32"], "limits": {"max_batch": -1}})", "max_batch"},
      {R"({"dtypes": ["f32"], "limits": {"max": 1}})", "max"},
      {R"({"dtypes": ["f32"], "numerics": {"exp_ulp": -1}})", "exp_ulp"},
      {R"({"dtypes": ["f32"], "numerics": {"f16": {"exp_ulp": -1}}})", "numerics.f16.exp_ulp"},
      {R"({"dtypes": ["f32"], "numerics": {"accumulate": "i64"}})", "numerics.accumulate"},
      {R"({"dtypes": ["f32"], "numerics": {"summation_block": -1}})", "summation_block"},
      {R"({"dtypes": ["f32"], "numerics": {"f8": {}}})", "f8"},
      {R"({"dtypes": ["f32"], "options": {"tile": "16"}})", "options.tile"},
      {R"({"dtypes": ["f32"], "features": ["causal"]})", "causal_offset"},
      {R"({"dtypes": ["f32"], "features": ["window"]})", "causal_offset"},
      {R"({"dtypes": ["f32"], "features": ["present"]})",
       "present, which says nothing without past"},
      {R"({"dtypes": ["f32"], "features": ["mask", "mask_with_bias"]})", "without bias"},
      {R"({"dtypes": ["f32"], "features": ["mask", "mask_key_broadcast"]})",
       "without mask_broadcast"},
      {R"({"dtypes": ["f32"], "causal": "always"})", "features must have causal"},
      {R"({"dtypes": ["f32"], "window_sides": "right"})", "left_if_causal"},
      {R"({"dtypes": ["f32"], "excludes": ["mask_with_bias"]})", "causal_with_mask"},
      {R"({"dtypes": ["f32"], "backward": true})", "backward must be an array"},
      {R"({"dtypes": ["f32"], "backward": ["mask"]})", "backward has mask, which features lacks"},
      {R"({"contract": "attest-1", "backward": ["pages"]})", "no backward call carries it"},
      {R"({"contract": "attest-1", "backward": ["causal", "causal"]})",
       R"(backward: "causal" comes twice)"},
      {R"({"contract": "attest-1", "backward": ["dbias"]})",
       "backward has dbias, which says nothing without bias"},
      {R"({"contract": "attest-1", "backward": ["bias", "sinks", "dsink"], "features": ["bias", "sinks", "dsink"]})",
       "features has dsink, which is a word of backward"},
      {R"({"contract": "attest-1", "causal": "always", "backward": []})",
       "backward must have causal"},
  };
  for (const BadContract& bad : kBad) {
    const auto contract = ParseContract(bad.json);
    ASSERT_FALSE(contract) << bad.json;
    EXPECT_THAT(contract.error(), HasSubstr(bad.says)) << bad.json;
    EXPECT_EQ(contract.error().find('\n'), std::string::npos) << bad.json;
  }
}

// Or a kernel that starts from attest-1 and offers less would have to deny what it never heard of.
// Found by fuzz_case: a key with newlines broke the error into several lines.
TEST(ContractTest, AnErrorIsOneLineWhateverItQuotes) {
  for (const char* text : {R"({"nuc\n\nmerics": 1})", R"({"empty_row": "a\r\nb"})",
                           R"({"contract": "a\nb"})", R"({"dtypes": ["f\n32"]})",
                           R"({"numerics": {"f\n32": {}}})", R"({"options": {"a\n": 3}})"}) {
    const auto contract = ParseContract(text);
    ASSERT_FALSE(contract) << text;
    EXPECT_EQ(std::ranges::count_if(contract.error(), [](char c) { return c < ' '; }), 0) << text;
  }
}

TEST(ContractTest, FeaturesOfItsOwnReplaceScoresAndFp8OfThePublishedContract) {
  const auto whole = ParseContract(R"({"contract": "attest-1"})");
  EXPECT_FALSE(whole->scores.empty());
  EXPECT_FALSE(whole->fp8.empty());
  const auto less = ParseContract(R"({"contract": "attest-1", "features": ["causal"]})");
  EXPECT_TRUE(less->scores.empty());
  EXPECT_TRUE(less->fp8.empty());
  const auto some =
      ParseContract(R"({"contract": "attest-1", "scores": ["raw"], "features": ["causal"]})");
  EXPECT_EQ(some->scores, EnumSet<ScoreMode>{ScoreMode::kRaw});
}

}  // namespace
}  // namespace attest
