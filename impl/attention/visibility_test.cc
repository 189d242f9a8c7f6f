#include "impl/attention/visibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Problem Sizes(int64_t q_len, int64_t kv_len) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  return p;
}

TEST(VisibilityTest, CausalFollowsTheDiagonalOffsetOfTheBatchItem) {
  Problem p = Sizes(2, 5);
  p.batch = 2;
  p.causal = true;
  p.diagonal_offset = {0, 3};
  EXPECT_THAT(VisibleKeys(p, {0, 0, 0}), ElementsAre(0));
  EXPECT_THAT(VisibleKeys(p, {0, 0, 1}), ElementsAre(0, 1));
  EXPECT_THAT(VisibleKeys(p, {1, 0, 0}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(VisibleKeys(p, {1, 0, 1}), ElementsAre(0, 1, 2, 3, 4));
}

TEST(VisibilityTest, ANegativeOffsetLeavesLeadingRowsEmpty) {
  Problem p = Sizes(3, 2);
  p.causal = true;
  p.diagonal_offset = {-1};
  EXPECT_TRUE(IsEmptyRow(p, {0, 0, 0}));
  EXPECT_THAT(VisibleKeys(p, {0, 0, 1}), ElementsAre(0));
}

TEST(VisibilityTest, AWindowOfZeroLeavesTheDiagonalKey) {
  Problem p = Sizes(3, 3);
  p.window = {0, 0};
  for (int64_t i = 0; i < 3; ++i) EXPECT_THAT(VisibleKeys(p, {0, 0, i}), ElementsAre(i));
  p.window = {1, std::nullopt};
  EXPECT_THAT(VisibleKeys(p, {0, 0, 2}), ElementsAre(1, 2));
  p.window = {std::nullopt, 1};
  EXPECT_THAT(VisibleKeys(p, {0, 0, 0}), ElementsAre(0, 1));
}

TEST(VisibilityTest, LengthsMasksAndBiasHideTogetherAndSayWhy) {
  Problem p = Sizes(1, 4);
  p.key_lengths = {3};
  p.mask = BitPlane{{1, 1, 1, 4}, 2, {1, 0, 1, 1}};
  p.bias = BitPlane{{1, 1, 1, 4}, 4, {1, 1, 0, 0}};
  EXPECT_THAT(VisibleKeys(p, {0, 0, 0}), ElementsAre(0));
  EXPECT_EQ(WhyHidden(p, {0, 0, 0}, 1), kHiddenByMask);
  EXPECT_EQ(WhyHidden(p, {0, 0, 0}, 2), kHiddenByBias);
  EXPECT_EQ(WhyHidden(p, {0, 0, 0}, 3), kHiddenByBias | kHiddenByLength);
}

TEST(VisibilityTest, ABroadcastPlaneEqualsItsExpansion) {
  Problem p = Sizes(2, 3);
  p.batch = 2;
  p.q_heads = p.kv_heads = 2;
  for (const Shape4 shape : {Shape4{1, 1, 1, 3}, Shape4{2, 1, 1, 3}, Shape4{1, 2, 2, 3},
                             Shape4{2, 2, 2, 1}, Shape4{2, 2, 2, 3}, Shape4{1, 1, 1, 1}}) {
    BitPlane plane{shape, 4, {}};
    for (int64_t i = 0; i < ElementCount(shape); ++i) plane.bits.push_back((i * 5 + 1) % 3 != 0);
    Problem broadcast = p, expanded = p;
    broadcast.mask = plane;
    expanded.mask = VisiblePlane(broadcast);
    EXPECT_EQ(VisiblePlane(broadcast), VisiblePlane(expanded));
  }
}

TEST(VisibilityTest, TheRangeHoldsEveryVisibleKey) {
  Problem p = Sizes(4, 5);
  for (int64_t offset = -6; offset <= 6; ++offset) {
    for (int64_t left = 0; left < 3; ++left) {
      p.diagonal_offset = {offset};
      p.window = {left, 1};
      p.key_lengths = {4};
      ForEachRow(p, [&](const Row& row) {
        const KeyRange range = VisibleRange(p, row);
        EXPECT_LE(range.first, range.last);
        for (int64_t j = 0; j < p.kv_len; ++j) {
          EXPECT_EQ(Visible(p, row, j), range.first <= j && j < range.last);
        }
      });
    }
  }
}

TEST(ProblemTest, ValidProblemsIncludeEveryZeroSize) {
  Problem p = Sizes(0, 0);
  p.head_dim = p.value_dim = p.batch = 0;
  EXPECT_EQ(Validate(p), std::nullopt);
  p.q_heads = p.kv_heads = 0;
  EXPECT_EQ(Validate(p), std::nullopt);
  EXPECT_THAT(VisiblePlane(p).bits, IsEmpty());
}

TEST(ProblemTest, EachMistakeIsNamed) {
  const auto says = [](auto change) {
    Problem p = Sizes(2, 3);
    change(p);
    return Validate(p).value_or("(valid)");
  };
  EXPECT_THAT(says([](Problem& p) {
                p.q_heads = 8;
                p.kv_heads = 3;
              }),
              HasSubstr("kv_heads = 3 does not divide q_heads = 8"));
  EXPECT_THAT(says([](Problem& p) { p.kv_heads = 0; }), HasSubstr("kv_heads = 0"));
  EXPECT_THAT(says([](Problem& p) { p.kv_len = -1; }), HasSubstr("kv_len = -1"));
  EXPECT_THAT(says([](Problem& p) { p.q_len = p.kv_len = 1 << 20; }), HasSubstr("elements"));
  EXPECT_THAT(says([](Problem& p) {
                p.q_len = p.batch = 1 << 20;
                p.kv_len = p.head_dim = p.value_dim = 0;
              }),
              HasSubstr("elements"));
  EXPECT_THAT(says([](Problem& p) { p.dtype = DType::kI64; }), HasSubstr("dtype"));
  EXPECT_THAT(says([](Problem& p) { p.scale = 0.0 / 0.0; }), HasSubstr("scale"));
  EXPECT_THAT(says([](Problem& p) { p.key_lengths = {4}; }), HasSubstr("key_lengths"));
  EXPECT_THAT(says([](Problem& p) { p.diagonal_offset = {1, 2}; }), HasSubstr("diagonal_offset"));
  EXPECT_THAT(says([](Problem& p) { p.window.left = -1; }), HasSubstr("window.left"));
  EXPECT_THAT(says([](Problem& p) {
                p.mask = BitPlane{{1, 1, 2, 2}, 4, {1, 1, 1, 1}};
              }),
              HasSubstr("mask.shape[3]"));
  EXPECT_THAT(says([](Problem& p) { p.bias = BitPlane{{1, 1, 2, 3}, 4, {1}}; }), HasSubstr("bits"));
  EXPECT_THAT(says([](Problem& p) { p.mask = BitPlane{{1, 1, 1, 1}, 5, {1}}; }), HasSubstr("rank"));
}

}  // namespace
}  // namespace attest
