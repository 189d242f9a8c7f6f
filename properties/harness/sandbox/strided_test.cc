#include "properties/harness/sandbox/strided.h"

#include <gtest/gtest.h>

#include <limits>

namespace attest {
namespace {

CallTensor Tensor(std::vector<int64_t> shape, std::vector<int64_t> strides, size_t bytes) {
  CallTensor tensor;
  tensor.role = 1;
  tensor.shape = std::move(shape);
  tensor.strides = std::move(strides);
  tensor.image.resize(bytes);
  return tensor;
}

std::optional<std::string> Why(CallTensor tensor, int64_t alignment = 16) {
  Call call;
  call.min_alignment = alignment;
  call.tensors.push_back(std::move(tensor));
  return WhyMalformed(call);
}

TEST(Strided, SpanReachesTheLastElementWhateverTheOrderOfStrides) {
  EXPECT_EQ(SpanBytes(Tensor({2, 3}, {3, 1}, 24)), 24u);
  EXPECT_EQ(SpanBytes(Tensor({2, 3}, {1, 2}, 24)), 24u);
  EXPECT_EQ(SpanBytes(Tensor({2, 3}, {8, 1}, 44)), 44u);
  EXPECT_EQ(SpanBytes(Tensor({2, 3}, {0, 1}, 12)), 12u);
  EXPECT_EQ(SpanBytes(Tensor({2, 0}, {7, 7}, 0)), 0u);
  EXPECT_EQ(SpanBytes(Tensor({}, {}, 4)), 4u);
}

TEST(Strided, OnlyBijectiveLayoutsAreGapless) {
  EXPECT_TRUE(IsGapless(Tensor({2, 3}, {3, 1}, 24)));
  EXPECT_TRUE(IsGapless(Tensor({2, 3}, {1, 2}, 24)));
  EXPECT_TRUE(IsGapless(Tensor({2, 1, 3}, {3, 99, 1}, 24)));
  EXPECT_TRUE(IsGapless(Tensor({0}, {1}, 0)));
  EXPECT_FALSE(IsGapless(Tensor({2, 3}, {4, 1}, 28)));
  EXPECT_FALSE(IsGapless(Tensor({2, 3}, {3, 1}, 28)));  // bytes after the last element
  EXPECT_FALSE(IsGapless(Tensor({2, 2}, {0, 3}, 16)));  // right size, wrong bytes
  EXPECT_FALSE(IsGapless(Tensor({0}, {1}, 4)));
}

TEST(Strided, NearestElementIsFoundOnEverySide) {
  const CallTensor tensor = Tensor({2, 2}, {4, 1}, 24);  // elements at bytes 0, 4, 16, 20
  EXPECT_EQ(NearestElement(tensor, -9), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(NearestElement(tensor, 7), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(NearestElement(tensor, 9), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(NearestElement(tensor, 15), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(NearestElement(tensor, 1000), (std::vector<int64_t>{1, 1}));
  EXPECT_TRUE(IsInsideElement(tensor, 7));
  EXPECT_FALSE(IsInsideElement(tensor, 8));
  EXPECT_TRUE(NearestElement(Tensor({0, 2}, {2, 1}, 0), 0).empty());
}

TEST(Strided, MalformedTensorsAreNamedByRoleAndReason) {
  EXPECT_EQ(Why(Tensor({2, 3}, {3, 1}, 24)), std::nullopt);
  EXPECT_EQ(Why(Tensor({2}, {3, 1}, 24)), "role 1: shape and strides differ in rank");
  EXPECT_EQ(Why(Tensor({-1}, {1}, 24)), "role 1: negative extent");
  EXPECT_EQ(Why(Tensor({1}, {-1}, 24)), "role 1: negative stride");
  EXPECT_EQ(Why(Tensor({7}, {1}, 24)), "role 1: image of 24 bytes, but shape and strides reach 28");
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Why(Tensor({kHuge, kHuge}, {kHuge, 1}, 24)), "role 1: extent too large");
  EXPECT_EQ(Why(Tensor({kHuge}, {0}, 24)), "role 1: extent too large");
  EXPECT_EQ(Why(Tensor({1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 4)),
            "role 1: rank above 8");
  CallTensor flagged = Tensor({2, 3}, {3, 1}, 24);
  flagged.may_stay_unwritten.resize(5);
  EXPECT_EQ(Why(flagged), "role 1: may_stay_unwritten has 5 entries for 6 elements");
}

TEST(Strided, AlignmentsThatNoSlotCanGiveAreMalformed) {
  for (const int64_t alignment : {-16, 0, 3, 8192})
    EXPECT_TRUE(Why(Tensor({1}, {1}, 4), alignment)) << alignment;
  EXPECT_FALSE(Why(Tensor({1}, {1}, 4), 4096));
}

}  // namespace
}  // namespace attest
