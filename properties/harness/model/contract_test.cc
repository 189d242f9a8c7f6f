#include "properties/harness/model/contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace attest {
namespace {

using ::testing::HasSubstr;

// A contract with one more key.
std::string With(const std::string& member, const std::string& kind = "decoder") {
  return R"({"contract": "attest-model-1", "vocab": 16, "max_len": 32, "kind": ")" + kind + "\"" +
         (member.empty() ? "" : ", " + member) + "}";
}

TEST(ModelContractTest, TheShortestOnePromisesNothing) {
  const auto contract = ParseModelContract(With(""));
  ASSERT_TRUE(contract) << contract.error();
  EXPECT_EQ(contract->kind, ModelKind::kDecoder);
  EXPECT_EQ(contract->vocab, 16);
  EXPECT_EQ(contract->max_len, 32);
  EXPECT_EQ(contract->max_source_len, 0);
  EXPECT_EQ(contract->dtype, DType::kF32);
  EXPECT_TRUE(contract->padding.empty() && contract->caches.empty());
  EXPECT_FALSE(contract->batcher || contract->bits.future || contract->bits.rerun);
}

TEST(ModelContractTest, EveryKeyIsRead) {
  const auto contract = ParseModelContract(With(
      R"("dtype": "f64", "padding": ["left", "right"], "positions": "relative", "first_position": true,
         "reach": 5, "caches": ["ring"], "reorder": true,
         "cache_bytes": {"per_token": 64, "page": 4, "slots": 8},
         "batcher": {"pad": 0, "eos": 2, "packs": true}, "bits_invariant": ["future", "chunks"])"));
  ASSERT_TRUE(contract) << contract.error();
  EXPECT_EQ(contract->dtype, DType::kF64);
  EXPECT_EQ(contract->padding, (std::vector{PaddingSide::kLeft, PaddingSide::kRight}));
  EXPECT_EQ(contract->positions, ModelPositions::kRelative);
  EXPECT_TRUE(contract->first_position && contract->reorder);
  EXPECT_EQ(contract->reach, 5);
  EXPECT_EQ(contract->caches, std::vector<std::string>{"ring"});
  EXPECT_EQ(contract->cache_bytes->slots, 8);
  EXPECT_EQ(contract->batcher->eos, 2);
  EXPECT_FALSE(contract->batcher->bos);
  EXPECT_TRUE(contract->bits.future && contract->bits.chunks && !contract->bits.batch);
}

TEST(ModelContractTest, WhatIsWrongIsNamed) {
  const std::pair<std::string, const char*> wrong[] = {
      {"no json", "is no JSON"},
      {"[]", "is no JSON object"},
      {R"({"contract": "attest-1"})", "contract: \"attest-1\" is not"},
      {R"({"contract": "attest-model-1", "kind": "decoder", "vocab": 16})", "max_len: is missing"},
      {With("", "gpt"), "kind: \"gpt\" is none of decoder, encoder, encoder_decoder"},
      {With(R"("windows": 3)"), "windows: unknown key"},
      {With(R"("dtype": "i64")"), "dtype: \"i64\" is none of f32"},
      {With(R"("reach": -1)"), "reach: -1 is no whole number from 0"},
      {With(R"("padding": "left")"), "padding: \"left\" is no list"},
      {With(R"("caches": ["big"])"), "caches: \"big\" is none of contiguous, paged, ring"},
      {With(R"("caches": ["ring"])", "encoder"), "caches: an encoder generates nothing"},
      {With(R"("batcher": {"pad": 16})"), "batcher.pad: 16 is no whole number from 0 to 15"},
      {With(R"("batcher": {"cls": 1})"), "batcher.cls: unknown key"},
      {With(R"("batcher": {"pad": 1, "joins": true})"), "batcher.joins: needs a bos or an eos"},
      {With(R"("batcher": {"drops_last": 1})"), "batcher.drops_last: 1 is not true or false"},
      {With(R"("batcher": {"loses_edges": "yes"})"),
       "batcher.loses_edges: \"yes\" is not true or false"},
      {With(R"("cache_bytes": {"per_token": 1})"), "cache_bytes: there are no caches"},
      {With(R"("bits_invariant": ["heads"])"), "bits_invariant: \"heads\" is none of future"},
      {With(R"("max_source_len": 3)"), "only an encoder_decoder has sources"},
  };
  for (const auto& [json, says] : wrong) {
    const auto contract = ParseModelContract(json);
    ASSERT_FALSE(contract) << json;
    EXPECT_THAT(contract.error(), HasSubstr(says));
  }
}

TEST(ModelContractTest, DependenciesFollowKindAndReach) {
  ModelContract contract = *ParseModelContract(With(R"("reach": 2)"));
  EXPECT_TRUE(MayDepend(contract, 3, 3) && MayDepend(contract, 3, 2));
  EXPECT_FALSE(MayDepend(contract, 3, 1) || MayDepend(contract, 3, 4));
  contract.kind = ModelKind::kEncoder;
  EXPECT_TRUE(MayDepend(contract, 3, 4));
  contract.reach = 0;
  EXPECT_TRUE(MayDepend(contract, 0, 9));
}

TEST(ModelContractTest, AModelsContractIsToldFromAKernels) {
  EXPECT_TRUE(IsModelContract(With("")));
  EXPECT_FALSE(IsModelContract(R"({"contract": "attest-1"})"));
  EXPECT_FALSE(IsModelContract("nonsense"));
}

}  // namespace
}  // namespace attest
