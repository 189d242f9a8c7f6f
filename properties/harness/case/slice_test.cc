#include "properties/harness/case/slice.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/offers.h"

namespace attest {
namespace {

TEST(SliceTest, WhatRemainsIsVisibleExactlyAsBefore) {
  int cuts = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const Case c = DrawCase(seed, 60, EverythingContract());
    const Problem& p = c.problem;
    if (p.batch < 2 || p.q_len < 3 || p.kv_len < 3) continue;
    const Case cut =
        Select(Select(Select(c, Axis::kBatch, {1}), Axis::kQLen, IndexRange(1, p.q_len - 2)),
               Axis::kKvLen, IndexRange(2, p.kv_len - 2));
    ASSERT_EQ(Validate(cut), std::nullopt);
    ForEachRow(cut.problem, [&](const Row& row) {
      for (int64_t j = 0; j < cut.problem.kv_len; ++j) {
        ASSERT_EQ(Visible(cut.problem, row, j), Visible(p, Row{1, row.head, row.query + 1}, j + 2));
      }
    });
    ++cuts;
  }
  EXPECT_GT(cuts, 300);
}

// The row of `cut` that stood at batch item 1, query + 1 of `p`, and whose keys stood two later.
void ExpectSameRow(const Problem& cut, const Problem& p, const Row& row) {
  for (int64_t j = 0; j < cut.kv_len; ++j) {
    ASSERT_EQ(cut.Alibi(0, row.head, row.query, j), p.Alibi(1, row.head, row.query + 1, j + 2));
    if (!p.dropout) continue;
    ASSERT_EQ(cut.dropout->keep.At(0, row.head, row.query, j),
              p.dropout->keep.At(1, row.head, row.query + 1, j + 2));
  }
  if (p.sinks) {
    ASSERT_EQ(cut.sinks, p.sinks);
  }
  ASSERT_EQ(IsPaddedQuery(cut, row), IsPaddedQuery(p, Row{1, row.head, row.query + 1}));
}

TEST(SliceTest, DistancesDropoutAndPaddingStayWithTheirRows) {
  int alibi = 0, dropout = 0, padded = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const Case c = DrawCase(seed, 60, EverythingContract());
    const Problem& p = c.problem;
    if (p.batch < 2 || p.q_len < 3 || p.kv_len < 3) continue;
    const Case cut =
        Select(Select(Select(c, Axis::kKvLen, IndexRange(2, p.kv_len - 2)), Axis::kBatch, {1}),
               Axis::kQLen, IndexRange(1, p.q_len - 2));
    ASSERT_EQ(Validate(cut), std::nullopt);
    ForEachRow(cut.problem, [&](const Row& row) { ExpectSameRow(cut.problem, p, row); });
    if (::testing::Test::HasFatalFailure()) return;
    alibi += p.alibi_slopes.has_value();
    dropout += p.dropout.has_value();
    padded += p.query_lengths.has_value();
  }
  EXPECT_GT(std::min({alibi, dropout, padded}), 50) << alibi << " " << dropout << " " << padded;
}

TEST(SliceTest, ABlockMaskStaysOneWhereNoTileIsCutThrough) {
  Case c;
  Problem& p = c.problem;
  p.q_len = 4;
  p.kv_len = 6;
  p.block_mask = BlockMask{2, 3, {{1, 1, 2, 2}, 4, {1, 0, 0, 1}}};
  const Case end = Select(c, Axis::kKvLen, IndexRange(0, 4));
  ASSERT_TRUE(end.problem.block_mask);
  EXPECT_EQ(end.problem.block_mask->plane.bits, (std::vector<uint8_t>{1, 0, 0, 1}));
  const Case tile = Select(c, Axis::kQLen, {2, 3});
  EXPECT_EQ(tile.problem.block_mask->plane.bits, (std::vector<uint8_t>{0, 1}));
  EXPECT_FALSE(tile.problem.mask);
  const Case through = Select(c, Axis::kKvLen, IndexRange(1, 5));
  EXPECT_FALSE(through.problem.block_mask);
  ASSERT_TRUE(through.problem.mask);
  EXPECT_EQ(through.problem.mask->bits, (std::vector<uint8_t>{1, 1, 0, 0, 0, 1, 1, 0, 0, 0,  //
                                                              0, 0, 1, 1, 1, 0, 0, 1, 1, 1}));
}

TEST(SliceTest, PastKeysAndPrefixesCountTheKeysThatRemain) {
  Case c;
  c.problem.kv_len = 6;
  c.problem.causal = true;
  c.problem.prefix_lengths = {5};
  c.storage.past = 3;
  const Case cut = Select(c, Axis::kKvLen, {1, 2, 4});
  EXPECT_EQ(cut.storage.past, 2);
  EXPECT_EQ(*cut.problem.prefix_lengths, (std::vector<int64_t>{3}));
}

TEST(SliceTest, HeadsTakeTheirSlopesAndSinksAlong) {
  Case c;
  c.problem.q_heads = 4;
  c.problem.kv_heads = 2;
  c.problem.alibi_slopes = {1, 2, 3, 4};
  c.problem.sinks = {5, 6, 7, 8};
  const Case cut = SelectHeads(c, {1}, 1);
  EXPECT_EQ(*cut.problem.alibi_slopes, (std::vector<double>{3}));
  EXPECT_EQ(*cut.problem.sinks, (std::vector<double>{7}));
}

TEST(SliceTest, HeadsKeepTheirMasksAndTheirGroups) {
  int cuts = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const Case c = DrawCase(seed, 60, EverythingContract());
    const Problem& p = c.problem;
    const int64_t ratio = p.heads_per_kv_head();
    if (p.kv_heads < 2 || ratio < 2) continue;
    const Case cut = SelectHeads(c, {1}, 2);
    ASSERT_EQ(Validate(cut), std::nullopt);
    ForEachRow(cut.problem, [&](const Row& row) {
      for (int64_t j = 0; j < p.kv_len; ++j) {
        ASSERT_EQ(Visible(cut.problem, row, j),
                  Visible(p, Row{row.batch, row.head + ratio, row.query}, j));
      }
    });
    ++cuts;
  }
  EXPECT_GT(cuts, 100);
}

TEST(SliceTest, LiteralsAndOverridesMoveWithTheirKeys) {
  Case c;
  Problem& p = c.problem;
  p.kv_len = 4;
  p.value_dim = 2;
  p.q_len = 2;
  p.bias = BitPlane{{1, 1, 1, 4}, 4, {1, 0, 1, 1}};
  Array bias({1, 1, 1, 4});
  bias.values = {5, -std::numeric_limits<double>::infinity(), 6, 7};
  c.literals[DataTensor::kBias] = bias;
  Array v({1, 1, 4, 2});
  v.values = {0, 1, 2, 3, 4, 5, 6, 7};
  c.literals[DataTensor::kV] = v;
  c.overrides = {{DataTensor::kK, {0, 0, 0, 0}, 1},
                 {DataTensor::kK, {0, 0, 3, 0}, 2},
                 {DataTensor::kBias, {0, 0, 0, 2}, 3},
                 {DataTensor::kQ, {0, 0, 1, 0}, 4}};
  ASSERT_EQ(Validate(c), std::nullopt);
  const Case cut = Select(Select(c, Axis::kKvLen, {1, 3}), Axis::kQLen, {1});
  ASSERT_EQ(Validate(cut), std::nullopt);
  EXPECT_EQ(cut.literals.at(DataTensor::kV).values, (std::vector<double>{2, 3, 6, 7}));
  EXPECT_EQ(cut.literals.at(DataTensor::kBias).values[1], 7);
  ASSERT_EQ(cut.overrides.size(), 2u);
  EXPECT_EQ(cut.overrides[0].index[2], 1);
  EXPECT_EQ(cut.overrides[1].tensor, DataTensor::kQ);
  EXPECT_EQ(cut.overrides[1].index[2], 0);
}

TEST(SliceTest, LengthsCountTheKeysThatRemain) {
  Case c;
  c.problem.batch = 3;
  c.problem.kv_len = 6;
  c.problem.key_lengths = {0, 3, 6};
  const Case cut = Select(c, Axis::kKvLen, {2, 3, 4});
  EXPECT_EQ(*cut.problem.key_lengths, (std::vector<int64_t>{0, 1, 3}));
}

}  // namespace
}  // namespace attest
