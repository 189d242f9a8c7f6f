#include "properties/harness/case/shrink.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "impl/attention/testing/repetitions.h"
#include "impl/attention/visibility.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/storage.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

std::string Text(const Case& c) {
  return ToToml({c, std::nullopt, std::nullopt, std::nullopt});
}

// Drawn cases that also hold literals and overrides, as imported and derived ones do.
Case DrawRich(uint64_t seed) {
  Case c = DrawCase(seed, static_cast<int>(seed % 101), EverythingContract());
  if (seed % 3 == 0) c.literals[DataTensor::kV] = Materialise(c).v;
  if (seed % 5 == 0 && c.problem.bias) c.literals[DataTensor::kBias] = Materialise(c).bias;
  const Problem& p = c.problem;
  if (seed % 4 == 0 && ElementCount(p.KShape()) > 0) {
    c.overrides.push_back({DataTensor::kK, {0, 0, p.kv_len - 1, 0}, std::nan("")});
    c.overrides.push_back({DataTensor::kK, {p.batch - 1, 0, 0, 0}, 0.5});
    MendStorage(c);
  }
  return c;
}

TEST(ShrinkTest, EveryCandidateIsValidAndStrictlySmaller) {
  size_t most = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(Repetitions(202)); ++seed) {
    const Case c = DrawRich(seed);
    const auto measure = CaseMeasure(c);
    const auto candidates = ShrinkCandidates(c);
    most = std::max(most, candidates.size());
    for (const Case& candidate : candidates) {
      ASSERT_EQ(Validate(candidate), std::nullopt) << Text(c) << Text(candidate);
      ASSERT_LT(CaseMeasure(candidate), measure) << Text(c) << Text(candidate);
    }
  }
  EXPECT_LE(most, 600u);  // "a few hundred": one for each of up to 17 batch items and 8 kv heads
}

TEST(ShrinkTest, TheSmallestCaseHasNoCandidates) {
  EXPECT_TRUE(ShrinkCandidates(Case{}).empty());
}

// Shrinks the cases of some seeds that fail, and gives the worst (largest) result.
template <typename Fails>
Case WorstOf(Fails&& fails, int wanted = 40) {
  Case worst;
  int found = 0;
  for (uint64_t seed = 0; found < wanted && seed < 200000; ++seed) {
    const Case c = DrawCase(seed, 100, EverythingContract());
    if (!fails(c)) continue;
    ++found;
    const ShrinkResult result = Shrink(c, fails, 4000);
    EXPECT_FALSE(result.budget_spent);
    EXPECT_TRUE(fails(result.smallest));
    if (CaseMeasure(result.smallest) > CaseMeasure(worst)) worst = result.smallest;
  }
  EXPECT_EQ(found, wanted);
  return worst;
}

TEST(ShrinkTest, ThresholdsAreMetExactlyAndNothingElseStays) {
  const Case worst = WorstOf([](const Case& c) {
    return c.problem.causal && c.problem.q_len >= 2 && c.problem.kv_len >= 5;
  });
  Case expected;
  expected.problem.causal = true;
  expected.problem.q_len = 2;
  expected.problem.kv_len = 5;
  EXPECT_TRUE(SameCase(worst, expected)) << Text(worst);
}

TEST(ShrinkTest, CoupledSizesAreLoweredTogether) {
  const auto fails = [](const Case& c) {
    return c.problem.window.left && *c.problem.window.left == c.problem.q_len - 1 &&
           c.problem.q_len >= 5;
  };
  Case c;
  c.problem.q_len = c.problem.kv_len = 36;
  c.problem.window.left = 35;
  const Case smallest = Shrink(c, fails).smallest;
  EXPECT_EQ(smallest.problem.q_len, 5);
  EXPECT_EQ(smallest.problem.kv_len, 1);
}

TEST(ShrinkTest, EqualLengthsAreLoweredTogether) {
  const Case worst = WorstOf(
      [](const Case& c) { return c.problem.q_len == c.problem.kv_len && c.problem.q_len >= 3; });
  EXPECT_EQ(worst.problem.q_len, 3);
  EXPECT_EQ(worst.problem.kv_len, 3);
}

TEST(ShrinkTest, ABottomRightKernelStaysBottomRight) {
  const Case worst = WorstOf(
      [](const Case& c) {
        const Problem& p = c.problem;
        return p.causal && p.q_len >= 2 && p.kv_len > p.q_len &&
               p.diagonal_offset == OffsetsFor(Alignment::kBottomRight, p);
      },
      20);
  EXPECT_EQ(worst.problem.q_len, 2);
  EXPECT_EQ(worst.problem.kv_len, 3);
  EXPECT_EQ(worst.problem.batch, 1);
}

TEST(ShrinkTest, AnEmptyRowShrinksToOneHiddenKey) {
  const Case worst = WorstOf([](const Case& c) {
    bool empty = false;
    ForEachRow(c.problem, [&](const Row& row) { empty |= IsEmptyRow(c.problem, row); });
    return c.problem.mask && empty && c.problem.kv_len > 0;
  });
  const Problem& p = worst.problem;
  EXPECT_EQ(p.q_len * p.kv_len * p.batch * p.q_heads, 1) << Text(worst);
  EXPECT_FALSE(p.bias || p.causal || p.key_lengths || p.window.active());
}

TEST(ShrinkTest, AFaultOfTheSecondItemAndGroupKeepsTwoOfEach) {
  const Case worst = WorstOf([](const Case& c) {
    return c.problem.batch >= 2 && c.problem.kv_heads >= 2 && c.problem.heads_per_kv_head() >= 2;
  });
  EXPECT_EQ(worst.problem.batch, 2);
  EXPECT_EQ(worst.problem.kv_heads, 2);
  EXPECT_EQ(worst.problem.q_heads, 4);
  EXPECT_EQ(worst.problem.kv_len, 1);
}

// Each feature alone on the plainest case, with its simplest values.
TEST(ShrinkTest, AFeatureThatMattersEndsAloneWithRoundNumbers) {
  const auto expect = [](auto&& fails, auto&& set) {
    Case expected;
    set(expected);
    ASSERT_TRUE(fails(expected));
    const Case worst = WorstOf(fails, 15);
    EXPECT_TRUE(SameCase(worst, expected)) << Text(worst);
  };
  expect([](const Case& c) { return c.problem.softcap > 0; },
         [](Case& c) { c.problem.softcap = 1; });
  expect([](const Case& c) { return c.problem.sinks && !c.problem.sinks->empty(); },
         [](Case& c) { c.problem.sinks = {0.0}; });
  expect([](const Case& c) { return c.problem.alibi_slopes && c.problem.q_len > 0; },
         [](Case& c) { c.problem.alibi_slopes = {0.0}; });
  expect([](const Case& c) { return c.problem.fp8.has_value(); },
         [](Case& c) { c.problem.fp8 = Fp8{}; });
  expect([](const Case& c) { return c.problem.want_scores.has_value(); },
         [](Case& c) { c.problem.want_scores = ScoreMode::kRaw; });
  expect([](const Case& c) { return c.storage.page_size > 0; },
         [](Case& c) { c.storage.page_size = 1; });
  expect([](const Case& c) { return c.storage.past > 0; }, [](Case& c) { c.storage.past = 1; });
  expect([](const Case& c) { return c.storage.without_present; },
         [](Case& c) {
           c.storage.past = 1;
           c.storage.without_present = true;
         });
  expect([](const Case& c) { return c.storage.first_call != FirstCall::kNo; },
         [](Case& c) { c.storage.first_call = FirstCall::kPastAbsent; });
  expect([](const Case& c) { return c.storage.packed; },
         [](Case& c) {
           c.problem.query_lengths = c.problem.key_lengths = {1};
           c.storage.packed = true;
         });
}

TEST(ShrinkTest, ADroppedWeightShrinksToOne) {
  const Case worst = WorstOf(
      [](const Case& c) {
        return c.problem.dropout && std::ranges::count(c.problem.dropout->keep.bits, 0) > 0;
      },
      15);
  EXPECT_EQ(worst.problem.dropout, (Dropout{0, {{1, 1, 1, 1}, 4, {0}}})) << Text(worst);
  EXPECT_EQ(worst.problem.kv_len, 1);
}

TEST(ShrinkTest, AForeignDocumentShrinksToOneQueryAndOneKey) {
  const Case worst = WorstOf(
      [](const Case& c) {
        const Problem& p = c.problem;
        bool hidden = false;
        ForEachRow(p, [&](const Row& row) {
          for (int64_t j = 0; j < p.kv_len; ++j)
            hidden |= (WhyHidden(p, row, j) & kHiddenByDocument) != 0;
        });
        return hidden;
      },
      15);
  EXPECT_EQ(worst.problem.q_len * worst.problem.kv_len * worst.problem.batch, 1) << Text(worst);
  EXPECT_EQ(worst.problem.documents->query.front() + worst.problem.documents->key.front(), 1)
      << Text(worst);
}

TEST(ShrinkTest, AHiddenTileShrinksToOneOfOneKey) {
  const Case worst = WorstOf(
      [](const Case& c) {
        const auto& blocks = c.problem.block_mask;
        return blocks && std::ranges::count(blocks->plane.bits, 0) > 0;
      },
      15);
  EXPECT_EQ(worst.problem.block_mask, (BlockMask{1, 1, {{1, 1, 1, 1}, 4, {0}}})) << Text(worst);
}

TEST(ShrinkTest, TinyDataBecomeSmallIntegers) {
  Case c;
  c.problem.kv_len = 4;
  c.problem.value_dim = 2;
  c.recipe = Recipe{ScoreFamily::kHeavyTailed, ValueFamily::kNormal, BiasFamily::kZero, 77};
  const auto fails = [](const Case& x) {  // the values of two keys have different signs
    const Inputs in = Materialise(x);
    return x.problem.kv_len >= 2 && in.v.At(0, 0, 0, 0) > 0 && in.v.At(0, 0, 1, 0) < 0;
  };
  bool met = false;
  for (c.recipe.seed = 5; c.recipe.seed < 200 && !met; ++c.recipe.seed) {
    if (!fails(c)) continue;
    met = true;
    const Case smallest = Shrink(c, fails).smallest;
    EXPECT_EQ(smallest.problem.kv_len, 2);
    EXPECT_EQ(smallest.recipe.scores, ScoreFamily::kZero);
    const Inputs in = Materialise(smallest);
    EXPECT_EQ(in.v.values, (std::vector<double>{1, -1})) << Text(smallest);
  }
  EXPECT_TRUE(met);
}

TEST(ShrinkTest, AKeyOutOfTheMiddleOfStoredDataGoes) {
  Case c;
  c.problem.kv_len = 8;
  Array v({1, 1, 8, 1});
  v.values = {7, 1, 1, 1, 1, 1, 1, 9};
  c.literals[DataTensor::kV] = v;
  const auto fails = [](const Case& x) {
    const auto literal = x.literals.find(DataTensor::kV);
    return literal != x.literals.end() && literal->second.values.front() == 7 &&
           literal->second.values.back() == 9;
  };
  EXPECT_EQ(Shrink(c, fails).smallest.problem.kv_len, 2);
}

TEST(ShrinkTest, TheBudgetEndsTheSearchAndSaysSo) {
  const Case c = DrawRich(12);
  const ShrinkResult result = Shrink(
      c, [](const Case&) { return false; }, 3);
  EXPECT_TRUE(result.budget_spent);
  EXPECT_EQ(result.tries, 3);
  EXPECT_TRUE(SameCase(result.smallest, c));
}

TEST(ShrinkTest, AlwaysFailingEndsAtThePlainestCase) {
  for (uint64_t seed = 1; seed < 60; ++seed) {
    const Case c = DrawRich(seed);
    const Problem& p = c.problem;
    if (std::min({p.batch, p.q_heads, p.q_len, p.kv_len, p.head_dim, p.value_dim}) == 0) continue;
    const ShrinkResult result = Shrink(c, [](const Case&) { return true; });
    EXPECT_TRUE(SameCase(result.smallest, Case{})) << Text(result.smallest);
    EXPECT_LT(result.tries, 30);
  }
}

}  // namespace
}  // namespace attest
