#include "impl/attention/contract_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every key of the format, with a value other than its default.
constexpr char kEverything[] = R"({
    "mask_true_means": "hide", "causal_offset": ["zero", "explicit"],
    "causal": "always", "window_counts": "keys_with_diagonal", "window_sides": "left_if_causal",
    "excludes": ["causal_with_mask", "causal_with_bias"], "empty_row": "mean_value", "lse": "base2",
    "lse_empty_row": "+inf", "padded_query_rows": "unwritten", "softcap_order": "after_bias",
    "masking_value": {"add": -10000.5}, "poison_safe": ["k:page", "v:causal"],
    "visible_nan_propagates": true, "features": ["causal", "ring"], "backward": ["causal"], "scores": ["capped"],
    "bits_invariant": ["threads"], "concurrent_calls": true, "dtypes": ["bf16"], "fp8": ["e5m2"], "layouts": ["bshd"],
    "strides": "last_dim_contiguous", "far_strides": false, "min_alignment": 64,
    "limits": {"max_batch": 2, "max_heads": 3, "max_q_len": 4, "max_kv_len": 5, "max_head_dim": 6,
               "head_dim_multiple": 7},
    "numerics": {"exp_ulp": 0.3, "f16": {"accumulate": "f16", "scores": "bf16",
        "probability": "f64", "scale_placement": "storage", "output_rounding": "truncate",
        "flush_to_zero": false, "truncating_accumulators": true, "lse_of_rounded_weights": true,
        "summation_block": 9}},
    "options": {"tile.rows": ["16", "a \"b\""]}})";

Contract Parsed(const std::string& json) {
  auto contract = ParseContract(json);
  EXPECT_TRUE(contract) << contract.error() << "\n" << json;
  return contract.value_or(Contract{});
}

// The keys that an error message of the parser lists.
std::set<std::string> KnownKeys() {
  const std::string error = ParseContract(R"({"no such key": 1})").error();
  std::set<std::string> keys;
  std::string rest = error.substr(error.find("known are ") + 10);
  for (size_t comma; (comma = rest.find(", ")) != rest.npos; rest = rest.substr(comma + 2)) {
    keys.insert(rest.substr(0, comma));
  }
  keys.insert(rest);
  return keys;
}

TEST(ContractJsonTest, EveryKeyOfTheParserIsPrinted) {
  const auto written = nlohmann::json::parse(kEverything);
  const auto printed = nlohmann::json::parse(ContractJson(Parsed(kEverything)));
  std::set<std::string> keys;
  for (const auto& [key, value] : printed.items()) keys.insert(key);
  EXPECT_EQ(keys, KnownKeys());
  for (const auto& [key, value] : written.items()) {
    if (key == "numerics") continue;
    EXPECT_EQ(printed[key], value) << key;
  }
  EXPECT_EQ(printed["numerics"]["f16"].size(), 10u);
  EXPECT_EQ(printed["numerics"]["f64"], (nlohmann::json{{"exp_ulp", 0.3}}));
}

TEST(ContractJsonTest, PrintThenParseEqualsOriginal) {
  std::vector<std::string> texts = {kEverything, R"({"dtypes": ["f32"]})"};
  for (const NamedContract& named : NamedContracts()) {
    const std::string start = "{\"contract\": \"" + std::string(named.name) + "\"";
    texts.push_back(start + "}");
    texts.push_back(
        start + ", \"dtypes\": [\"f64\"], \"strides\": \"any\", \"features\": [\"gqa\"]," +
        R"("masking_value": "-inf", "causal": "optional", "limits": {"max_head_dim": 0}})");
  }
  for (const std::string& text : texts) {
    const Contract contract = Parsed(text);
    const Contract again = Parsed(ContractJson(contract));
    EXPECT_THAT(DifferencesOf(contract, again), IsEmpty()) << text;
    EXPECT_EQ(again.name, contract.name);
    EXPECT_EQ(ContractJson(again), ContractJson(contract));
  }
}

TEST(ContractJsonTest, APublishedContractIsItsNameAlone) {
  EXPECT_EQ(ContractJson(*PublishedContract("jax")), "{\n  \"contract\": \"jax\"\n}");
  EXPECT_FALSE(PublishedContract("no-such"));
}

TEST(ContractJsonTest, DifferencesNameTheFieldAndBothSides) {
  const Contract a =
      Parsed(R"({"dtypes": ["f32"], "features": ["mask", "gqa"], "lse": "natural"})");
  const Contract b = Parsed(R"({"dtypes": ["f32"], "features": ["gqa", "bias"], "lse": "base2",
      "options": {"tile": ["1"]}})");
  const auto differences = DifferencesOf(a, b);
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[0].field, "lse");
  EXPECT_EQ(differences[0].a, "natural");
  EXPECT_EQ(differences[0].b, "base2");
  EXPECT_EQ(differences[1].field, "features");
  EXPECT_THAT(differences[1].only_a, ElementsAre("mask"));
  EXPECT_THAT(differences[1].only_b, ElementsAre("bias"));
  EXPECT_EQ(SetChanges(differences[1]), "+bias -mask");
  EXPECT_EQ(differences[2].field, "options.tile");
  EXPECT_EQ(CountDifferences(a, b), 4);
  EXPECT_EQ(CountDifferences(a, a), 0);
}

}  // namespace
}  // namespace attest
