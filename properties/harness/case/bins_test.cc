#include "properties/harness/case/bins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/case/test_contracts.h"

namespace attest {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

TEST(BinsTest, ACaseFallsIntoTheBinsOfItsFeatures) {
  Case c;
  Problem& p = c.problem;
  p.q_heads = 3;
  p.q_len = 3;
  p.kv_len = 9;
  p.causal = true;
  p.diagonal_offset = {6};
  p.mask = BitPlane{{1, 1, 3, 9}, 2, std::vector<uint8_t>(27, 1)};
  std::fill_n(p.mask->bits.begin() + 9, 9, uint8_t{0});
  c.layouts.k = Layout::kGapped;
  EXPECT_THAT(BinsOf(c), IsSupersetOf({"dtype=f32", "mask=per_position", "mask_rank=2", "bias=none",
                                       "alignment=bottom_right", "head_ratio=3", "batch=1",
                                       "kv_tail=one_over", "empty_rows=middle", "sizes=positive",
                                       "layout_k=gapped", "layout_q=bhsd", "scores=zero",
                                       "values=ones", "pair=causal+mask", "pair=causal+gqa"}));
}

TEST(BinsTest, TheRarerFeaturesHaveBinsOfTheirOwn) {
  Case c;
  Problem& p = c.problem;
  p.kv_len = 4;
  p.fp8 = Fp8{};
  p.softcap = 30;
  p.alibi_slopes = {0.5};
  p.want_scores = ScoreMode::kBiased;
  c.storage.past = 2;
  EXPECT_THAT(BinsOf(c), IsSupersetOf({"fp8=e4m3", "asked_scores=biased", "storage=past",
                                       "alignment=top_left", "pair=softcap+alibi", "pair=alibi+fp8",
                                       "pair=fp8+scores", "pair=scores+storage"}));
  EXPECT_THAT(BinsOf(Case{}), IsSupersetOf({"fp8=none", "asked_scores=none", "storage=plain"}));
  c.storage.without_present = true;
  EXPECT_THAT(BinsOf(c), Contains("storage=past_without_present"));
  c.storage = Storage{};
  c.storage.first_call = FirstCall::kPastEmpty;
  EXPECT_THAT(BinsOf(c), Contains("storage=past_empty"));
}

TEST(BinsTest, TheEdgesOfLargeTilesAreToldApartByAxis) {
  const auto seam = [](int64_t q_len, int64_t kv_len) {
    Case c;
    c.problem.q_len = q_len;
    c.problem.kv_len = kv_len;
    return BinsOf(c);
  };
  EXPECT_THAT(seam(33, 62), Contains("tile_seam=none"));
  EXPECT_THAT(seam(64, 70), Contains("tile_seam=queries"));
  EXPECT_THAT(seam(3, 129), Contains("tile_seam=keys"));
  EXPECT_THAT(seam(63, 97), Contains("tile_seam=both"));
  Contract decoder = BareContract();
  decoder.limits.max_q_len = 1;
  EXPECT_THAT(RequiredBins(decoder), Contains("tile_seam=keys"));
  EXPECT_THAT(RequiredBins(decoder), Not(Contains("tile_seam=queries")));
  EXPECT_THAT(RequiredBins(BareContract()), Contains("tile_seam=both"));
}

TEST(BinsTest, PackedSequencesAreNotAskedForWithMasks) {
  Contract contract = BareContract();
  contract.features = {Feature::kPacked, Feature::kMask};
  EXPECT_THAT(RequiredBins(contract), Contains("storage=packed"));
  EXPECT_THAT(RequiredBins(contract), Not(Contains("pair=mask+storage")));
  contract.features.insert(Feature::kRing);
  EXPECT_THAT(RequiredBins(contract), Contains("pair=mask+storage"));
}

TEST(BinsTest, EmptyRowsAreToldApartByPlace) {
  const auto place = [](std::vector<uint8_t> bits) {
    Case c;
    c.problem.q_len = 3;
    c.problem.mask = BitPlane{{1, 1, 3, 1}, 4, std::move(bits)};
    return BinsOf(c);
  };
  EXPECT_THAT(place({1, 1, 1}), Contains("empty_rows=none"));
  EXPECT_THAT(place({0, 1, 1}), Contains("empty_rows=first"));
  EXPECT_THAT(place({1, 0, 1}), Contains("empty_rows=middle"));
  EXPECT_THAT(place({1, 1, 0}), Contains("empty_rows=last"));
  EXPECT_THAT(place({0, 1, 0}), Contains("empty_rows=several"));
  EXPECT_THAT(place({0, 0, 0}), Contains("empty_rows=all"));
}

TEST(BinsTest, OnlyWhatAContractOffersIsRequired) {
  const auto bare = RequiredBins(BareContract());
  EXPECT_THAT(bare, Contains("dtype=f32"));
  for (const char* bin : {"dtype=f16", "head_ratio=2", "mask=full", "alignment=top_left",
                          "sizes=zero", "layout_k=gapped", "empty_rows=first"}) {
    EXPECT_THAT(bare, Not(Contains(bin)));
  }
  EXPECT_THAT(RequiredBins(OnnxLikeContract()), Not(Contains("pair=mask+bias")));
  EXPECT_THAT(RequiredBins(EverythingContract()), Contains("pair=mask+bias"));
  EXPECT_THAT(RequiredBins(NarrowContract()), Not(Contains("alignment=top_left")));
}

TEST(BinsTest, BackwardCallsHaveBinsByWhatTheyCarry) {
  Case c;
  EXPECT_TRUE(GradientBinsOf(c).empty());
  c.problem.want_gradients = c.problem.causal = true;
  EXPECT_THAT(GradientBinsOf(c), testing::ElementsAre("gradients=any", "gradients=causal"));
  Contract contract = BareContract();
  EXPECT_THAT(RequiredBins(contract), Not(Contains("gradients=any")));
  contract.features = {Feature::kMask, Feature::kBias};
  contract.backward.emplace({Feature::kMask});
  EXPECT_THAT(RequiredBins(contract), IsSupersetOf({"gradients=any", "gradients=mask"}));
  EXPECT_THAT(RequiredBins(contract), Not(Contains("gradients=bias")));
  BinCounts counts;
  counts.AddGradients(c);
  EXPECT_EQ(counts.counts().at("gradients=causal"), 1);
}

TEST(BinsTest, CountsAddAndMerge) {
  BinCounts a, b;
  a.Add(Case{});
  b.Add(Case{});
  a.Merge(b);
  EXPECT_EQ(a.counts().at("dtype=f32"), 2);
  EXPECT_THAT(a.Missing(BareContract()), Not(Contains("dtype=f32")));
  EXPECT_THAT(a.Missing(BareContract()), Contains("scores=huge"));
}

}  // namespace
}  // namespace attest
