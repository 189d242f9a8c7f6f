#include "properties/exhaustive/covering_array.h"

#include <set>
#include <tuple>

#include <gtest/gtest.h>

namespace attest {
namespace {

// Pairs of settings that occur in some row: (factor, level, factor, level).
std::set<std::tuple<size_t, int, size_t, int>> PairsOf(const std::vector<std::vector<int>>& rows) {
  std::set<std::tuple<size_t, int, size_t, int>> pairs;
  for (const auto& row : rows) {
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b) pairs.insert({a, row[a], b, row[b]});
    }
  }
  return pairs;
}

TEST(CoveringArrayTest, EveryPairStandsInSomeRow) {
  const std::vector<int> counts = {4, 2, 3, 5, 2, 2, 3, 1, 4};
  size_t expected = 0;
  for (size_t a = 0; a < counts.size(); ++a) {
    for (size_t b = a + 1; b < counts.size(); ++b) {
      expected += static_cast<size_t>(counts[a] * counts[b]);
    }
  }
  const auto rows = CoverPairs(counts);
  EXPECT_EQ(PairsOf(rows).size(), expected);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), counts.size());
    for (size_t f = 0; f < counts.size(); ++f) {
      EXPECT_GE(row[f], 0);
      EXPECT_LT(row[f], counts[f]);
    }
  }
}

TEST(CoveringArrayTest, RowsAreFewBesideAllCombinations) {
  // 20 rows are the least that the pairs of the two largest factors allow, of 69 120 combinations.
  const auto rows = CoverPairs({4, 2, 3, 5, 2, 2, 3, 4, 3, 2, 2});
  EXPECT_GE(rows.size(), 20u);
  EXPECT_LE(rows.size(), 32u);
}

TEST(CoveringArrayTest, OneFactorHasNoPairs) {
  EXPECT_TRUE(CoverPairs({3}).empty());
  EXPECT_TRUE(CoverPairs({}).empty());
}

}  // namespace
}  // namespace attest
