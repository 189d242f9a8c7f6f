#include "properties/exhaustive/flags.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "impl/reference/reference.h"

namespace attest {
namespace {

// Two items of 3 x 3 with causality, in which most keys are visible.
Case BaseCase() {
  Case c;
  c.problem.batch = 2;
  c.problem.q_heads = 2;
  c.problem.q_len = c.problem.kv_len = 3;
  c.problem.causal = true;
  c.problem.diagonal_offset = {1, 0};
  c.problem.mask.emplace();
  c.problem.mask->shape = {2, 1, 3, 3};
  c.problem.mask->bits.assign(18, 1);
  c.problem.mask->bits[4] = 0;
  return c;
}

FlagRow NoFlags() {
  return FlagRow(FlagFactors().size(), 0);
}

Array OutOf(const FlagRow& row) {
  Case c = BaseCase();
  ApplyFlags(row, c);
  EXPECT_EQ(Validate(c), std::nullopt) << Describe(row);
  const Semantics semantics{EmptyRow::kZero, LseEmptyRow::kMinusInf, SoftcapOrder::kBeforeBias};
  return ComputeReference(c.problem, Materialise(c), semantics).out;
}

// The largest change of an element of out; infinite where there are others.
double Change(const Array& a, const Array& b) {
  if (a.shape != b.shape) return INFINITY;
  double largest = 0;
  for (size_t n = 0; n < a.values.size(); ++n) {
    largest = std::max(largest, std::abs(a.values[n] - b.values[n]));
  }
  return largest;
}

TEST(FlagsTest, EveryFlagThatShouldMovesTheResult) {
  const Array without = OutOf(NoFlags());
  // The others say how data are stored, or which outputs are asked for.
  const std::vector<std::string_view> moving = {"two groups",
                                                "scale 0.75",
                                                "finite bias",
                                                "f32 bias",
                                                "bias with -inf",
                                                "mask per head",
                                                "mask as bias",
                                                "softcap 2",
                                                "sinks",
                                                "far sinks",
                                                "alibi",
                                                "prefix of 1",
                                                "prefix of all",
                                                "returning documents",
                                                "runs of documents",
                                                "blocks of 1 x 2",
                                                "blocks of 2 x 1",
                                                "dropout"};
  size_t moved = 0;
  for (size_t factor = 0; factor < FlagFactors().size(); ++factor) {
    for (size_t level = 1; level < FlagFactors()[factor].size(); ++level) {
      FlagRow row = NoFlags();
      row[factor] = static_cast<int>(level);
      const std::string_view name = FlagFactors()[factor][level].name;
      if (name == "packed") continue;
      const bool moves = std::ranges::count(moving, name) != 0;
      moved += moves ? 1 : 0;
      // bf16 has 8 bits: smaller changes might pass in it.
      EXPECT_EQ(Change(without, OutOf(row)) > 0.1, moves) << name;
    }
  }
  EXPECT_EQ(moved, moving.size());
}

TEST(FlagsTest, EveryPairOfLevelsStandsInARow) {
  for (size_t a = 0; a < FlagFactors().size(); ++a) {
    for (size_t b = a + 1; b < FlagFactors().size(); ++b) {
      for (int i = 0; i < static_cast<int>(FlagFactors()[a].size()); ++i) {
        for (int j = 0; j < static_cast<int>(FlagFactors()[b].size()); ++j) {
          if (FlagFactors()[a][static_cast<size_t>(i)].name == "packed") continue;
          if (FlagFactors()[b][static_cast<size_t>(j)].name == "packed") continue;
          EXPECT_TRUE(std::ranges::any_of(
              FlagRows(), [&](const FlagRow& row) { return row[a] == i && row[b] == j; }))
              << FlagFactors()[a][static_cast<size_t>(i)].name << " and "
              << FlagFactors()[b][static_cast<size_t>(j)].name;
        }
      }
    }
  }
}

TEST(FlagsTest, HiddenNanStandsWhereNoRowLooks) {
  int64_t poisoned = 0;
  for (FlagRow row : FlagRows()) {
    row.back() = 1;
    Case c = BaseCase();
    ApplyFlags(row, c);
    const Problem& p = c.problem;
    Array hidden = c.literals.at(DataTensor::kK);
    for (double& key : hidden.values) key = std::isnan(key) ? 1 : 0;
    ForEachRow(p, [&](const Row& r) {
      for (const int64_t j : VisibleKeys(p, r)) {
        EXPECT_EQ(hidden.At(r.batch, r.head / p.heads_per_kv_head(), j, 0), 0) << Describe(row);
      }
    });
    poisoned += std::ranges::count(hidden.values, 1);
  }
  EXPECT_GT(poisoned, 20);
}

}  // namespace
}  // namespace attest
