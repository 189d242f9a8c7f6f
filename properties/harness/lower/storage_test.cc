// Where keys, values and packed rows lie, by hand.
#include "properties/harness/lower/storage.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "properties/harness/lower/lower.h"
#include "properties/harness/lower/testing.h"

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two items, two kv heads, five keys of one column. K and V hold 100 * batch + 10 * head + key.
Case LabelledCase() {
  Case c;
  Problem& p = c.problem;
  p.batch = p.q_heads = p.kv_heads = 2;
  p.q_len = 3;
  p.kv_len = 5;
  Array labels(p.KShape());
  for (size_t n = 0; n < labels.values.size(); ++n) {
    labels.values[n] = static_cast<double>(100 * (n / 10) + 10 * (n / 5 % 2) + n % 5);
  }
  c.literals = {{DataTensor::kK, labels}, {DataTensor::kV, labels}};
  c.recipe.scores = ScoreFamily::kSmallIntegers;
  c.recipe.seed = 5;
  return c;
}

float FloatAt(const CallTensor& t, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * t.strides[axis];
  float value;
  std::memcpy(&value, t.image.data() + at * 4, 4);
  return value;
}

TEST(StorageTest, AFirstCallAsksForThePresentWithAnEmptyPastOrNone) {
  Case c = LabelledCase();
  c.storage.first_call = FirstCall::kPastAbsent;
  const Call absent = MustLower(c, Everything()).call;
  EXPECT_EQ(Find(absent, ATTEST_ROLE_PAST_K), nullptr);
  EXPECT_THAT(Find(absent, ATTEST_ROLE_K)->shape, ElementsAre(2, 2, 5, 1));
  EXPECT_THAT(Find(absent, ATTEST_ROLE_PRESENT_K)->shape, ElementsAre(2, 2, 5, 1));
  c.storage.first_call = FirstCall::kPastEmpty;
  const Call empty = MustLower(c, Everything()).call;
  EXPECT_THAT(Find(empty, ATTEST_ROLE_PAST_V)->shape, ElementsAre(2, 2, 0, 1));
  EXPECT_EQ(FloatAt(*Find(empty, ATTEST_ROLE_V), {1, 1, 2, 0}), 112);
  EXPECT_NE(Find(empty, ATTEST_ROLE_PRESENT_V), nullptr);
}

void ExpectRefused(const Case& c, const Contract& contract, const char* why) {
  const auto lowered = Lower(c, Materialise(c), contract);
  ASSERT_FALSE(lowered);
  EXPECT_THAT(lowered.error().reason, HasSubstr(why));
}

TEST(StorageTest, FirstCallsAreMadeWhereTheContractTakesThem) {
  Case absent = LabelledCase(), empty = absent;
  absent.storage.first_call = FirstCall::kPastAbsent;
  empty.storage.first_call = FirstCall::kPastEmpty;
  Contract contract = Everything();
  contract.excludes = {Exclusion::kPresentWithoutPast};
  ExpectRefused(absent, contract, "a first call with the present and no past");
  EXPECT_NE(Find(MustLower(empty, contract).call, ATTEST_ROLE_PRESENT_K), nullptr);
  contract.excludes = {Exclusion::kEmptyPast};
  ExpectRefused(empty, contract, "a first call with past keys of extent 0");
  contract.features.erase(Feature::kPresent);
  ExpectRefused(absent, contract, "a first call with the present and no past");
  contract.excludes.clear();
  EXPECT_EQ(Find(MustLower(empty, contract).call, ATTEST_ROLE_PRESENT_K), nullptr);
}

TEST(StorageTest, ThePastHasTheFirstKeysAndThePresentIsAskedFor) {
  Case c = LabelledCase();
  c.storage.past = 2;
  const Call call = MustLower(c, Everything()).call;
  const CallTensor& past = *Find(call, ATTEST_ROLE_PAST_K);
  const CallTensor& rest = *Find(call, ATTEST_ROLE_V);
  EXPECT_THAT(past.shape, ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(rest.shape, ElementsAre(2, 2, 3, 1));
  EXPECT_EQ(FloatAt(past, {1, 1, 1, 0}), 111);
  EXPECT_EQ(FloatAt(rest, {1, 1, 0, 0}), 112);
  EXPECT_THAT(Find(call, ATTEST_ROLE_PRESENT_V)->shape, ElementsAre(2, 2, 5, 1));
  c.storage.without_present = true;
  const Call without = MustLower(c, Everything()).call;
  EXPECT_NE(Find(without, ATTEST_ROLE_PAST_K), nullptr);
  EXPECT_EQ(Find(without, ATTEST_ROLE_PRESENT_K), nullptr);
  EXPECT_EQ(Find(without, ATTEST_ROLE_PRESENT_V), nullptr);
}

TEST(StorageTest, PagesHoldTheKeysAndPoisonElsewhere) {
  Case c = LabelledCase();
  c.problem.key_lengths = {5, 3};
  c.storage.page_size = 2;
  const Call call = MustLower(c, Everything()).call;
  const CallTensor& k = *Find(call, ATTEST_ROLE_K);
  const std::vector<int64_t> table = IntegersOf(*Find(call, ATTEST_ROLE_PAGE_TABLE));
  ASSERT_EQ(table.size(), 6u);
  EXPECT_EQ(table[5], -1) << "item 1 has two pages";
  ASSERT_GE(k.shape[0], 6) << "five used pages and a free one";
  for (const auto& [b, j] : {std::pair{0, 0}, {0, 4}, {1, 1}, {1, 2}}) {
    EXPECT_EQ(FloatAt(k, {table[static_cast<size_t>(3 * b + j / 2)], 1, j % 2, 0}),
              static_cast<float>(100 * b + 10 + j));
  }
  EXPECT_TRUE(std::isnan(FloatAt(k, {table[4], 0, 1, 0}))) << "the slot behind item 1's length";
  for (int64_t page = 0; page < k.shape[0]; ++page) {
    if (std::ranges::count(table, page) == 0) {
      EXPECT_TRUE(std::isnan(FloatAt(k, {page, 1, 0, 0})));
    }
  }
  EXPECT_THAT(IntegersOf(*Find(call, ATTEST_ROLE_KEY_LENGTHS)), ElementsAre(5, 3));
}

TEST(StorageTest, PoisonIsANumberWhereNanIsNotPromisedToBeHarmless) {
  Case c = LabelledCase();
  c.storage.page_size = 4;
  Contract contract = Everything();
  contract.poison_safe.erase({PoisonTensor::kV, PoisonPlace::kPage});
  const Call call = MustLower(c, contract).call;
  const CallTensor &k = *Find(call, ATTEST_ROLE_K), &v = *Find(call, ATTEST_ROLE_V);
  const int64_t page = IntegersOf(*Find(call, ATTEST_ROLE_PAGE_TABLE))[1];
  EXPECT_TRUE(std::isnan(FloatAt(k, {page, 0, 1, 0})));
  EXPECT_EQ(FloatAt(v, {page, 0, 1, 0}), 8 * 114);
  EXPECT_THAT(IntegersOf(*Find(call, ATTEST_ROLE_KEY_LENGTHS)), ElementsAre(5, 5))
      << "lengths are always given beside pages";
}

TEST(StorageTest, PagesAreShuffledByTheSeed) {
  Case c = LabelledCase();
  c.storage.page_size = 1;
  std::vector<std::vector<int64_t>> tables;
  for (const uint64_t seed : {1, 2, 1}) {
    c.recipe.seed = seed;
    tables.push_back(IntegersOf(*Find(MustLower(c, Everything()).call, ATTEST_ROLE_PAGE_TABLE)));
  }
  EXPECT_NE(tables[0], tables[1]);
  EXPECT_EQ(tables[0], tables[2]);
  std::ranges::sort(tables[0]);
  EXPECT_EQ(std::ranges::adjacent_find(tables[0]), tables[0].end()) << "a page has one owner";
}

TEST(StorageTest, TheRingStartsAnywhereAndHoldsEveryKey) {
  Case c = LabelledCase();
  c.storage.ring = true;
  bool has_turned = false;
  for (c.recipe.seed = 0; c.recipe.seed < 8; ++c.recipe.seed) {
    const Call call = MustLower(c, Everything()).call;
    const std::vector<int64_t> starts = IntegersOf(*Find(call, ATTEST_ROLE_RING_START));
    for (int64_t b = 0; b < 2; ++b) {
      const int64_t start = starts[static_cast<size_t>(b)];
      has_turned = has_turned || start != 0;
      for (int64_t j = 0; j < 5; ++j) {
        EXPECT_EQ(FloatAt(*Find(call, ATTEST_ROLE_V), {b, 1, (start + j) % 5, 0}),
                  static_cast<float>(100 * b + 10 + j));
      }
    }
  }
  EXPECT_TRUE(has_turned);
}

Case PackedCase() {
  Case c = LabelledCase();
  c.problem.query_lengths = {1, 3};
  c.problem.key_lengths = {0, 4};
  c.problem.want_lse = true;
  c.storage.packed = true;
  return c;
}

TEST(StorageTest, PackedSequencesLieEndToEndWithoutPadding) {
  const Call call = MustLower(PackedCase(), Everything()).call;
  const CallTensor& k = *Find(call, ATTEST_ROLE_K);
  EXPECT_THAT(k.shape, ElementsAre(4, 2, 1));
  EXPECT_THAT(k.strides, ElementsAre(2, 1, 1));
  EXPECT_EQ(FloatAt(k, {3, 1, 0}), 113);
  EXPECT_THAT(IntegersOf(*Find(call, ATTEST_ROLE_CU_KEY_LENGTHS)), ElementsAre(0, 0, 4));
  EXPECT_THAT(IntegersOf(*Find(call, ATTEST_ROLE_CU_QUERY_LENGTHS)), ElementsAre(0, 1, 4));
  EXPECT_THAT(Find(call, ATTEST_ROLE_OUT)->shape, ElementsAre(4, 2, 1));
  EXPECT_THAT(Find(call, ATTEST_ROLE_LSE)->shape, ElementsAre(2, 4));
  for (const int32_t role : {ATTEST_ROLE_KEY_LENGTHS, ATTEST_ROLE_QUERY_LENGTHS}) {
    EXPECT_EQ(Find(call, role), nullptr) << "the cumulative lengths say it";
  }
}

TEST(StorageTest, PackedRowsComeBackToTheirPlacesAndPaddingIsZero) {
  const Case c = PackedCase();
  const Lowered lowered = MustLower(c, Everything());
  CallResult result;
  result.status = CallStatus::kOk;
  const float out[] = {0, 1, 2, 3, 4, 5, 6, 7};  // [row, head]
  const float lse[] = {10, 11, 12, 13, 20, 21, 22, 23};
  for (const float* data : {out, lse}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    result.outputs.emplace_back(bytes, bytes + sizeof out);
  }
  const Outcome outcome = Lift(c, Everything(), lowered, result);
  EXPECT_THAT(outcome.out.values, ElementsAre(0, 0, 0, 1, 0, 0, 2, 4, 6, 3, 5, 7));
  EXPECT_THAT(outcome.lse.values, ElementsAre(10, 0, 0, 20, 0, 0, 11, 12, 13, 21, 22, 23));
}

TEST(StorageTest, PackedDiagonalsGoByTheItemsOwnLengths) {
  Case c = PackedCase();
  c.problem.causal = true;
  c.problem.diagonal_offset = {-1, 1};  // key length - query length
  Contract contract = Everything();
  contract.causal_offset = {CausalOffset::kKvLenMinusQLen};
  EXPECT_EQ(Find(MustLower(c, contract).call, ATTEST_ROLE_DIAGONAL_OFFSET), nullptr);
  c.problem.diagonal_offset = {-1, 0};
  const auto lowered = Lower(c, Materialise(c), contract);
  ASSERT_FALSE(lowered);
  EXPECT_THAT(lowered.error().reason, HasSubstr("causal")) << "no mask can stand for it";
}

TEST(StorageTest, WithAPastTheOnnxRuleStandsTheFirstRowBehindIt) {
  Case c = LabelledCase();
  c.problem.causal = true;
  c.storage.past = 2;
  Contract contract = Everything();
  contract.causal_offset = {CausalOffset::kByInputs};
  c.problem.diagonal_offset = {2, 2};
  EXPECT_FALSE(MustLower(c, contract).via_mask);
  c.problem.diagonal_offset = {};
  EXPECT_TRUE(MustLower(c, contract).via_mask);
}

TEST(StorageTest, WhatIsNotOfferedIsRefusedWithAReason) {
  const auto reason = [](Feature lacking, const Case& c) {
    Contract contract = Everything();
    contract.features.erase(lacking);
    const auto lowered = Lower(c, Materialise(c), contract);
    return lowered ? "(supported)" : lowered.error().reason;
  };
  Case c = LabelledCase();
  c.storage = {2, 0, false, false};
  EXPECT_THAT(reason(Feature::kPast, c), HasSubstr("past"));
  c.storage = {5, 0, false, false};
  EXPECT_THAT(reason(Feature::kZeroSizes, c), HasSubstr("size of 0")) << "no new key is left";
  c.storage = {0, 3, false, false};
  EXPECT_THAT(reason(Feature::kPages, c), HasSubstr("paged"));
  c.problem.want_scores = ScoreMode::kRaw;
  c.problem.key_lengths = {5, 4};
  EXPECT_THAT(reason(Feature::kRing, c), HasSubstr("pages do not hold every key"));
  c = LabelledCase();
  c.storage.ring = true;
  EXPECT_THAT(reason(Feature::kRing, c), HasSubstr("ring"));
  EXPECT_THAT(reason(Feature::kPacked, PackedCase()), HasSubstr("packed"));
}

}  // namespace
}  // namespace attest
