#include "impl/reference/reference.h"

#include <cmath>

#include <gtest/gtest.h>

#include "impl/reference/extended_reference.h"
#include "impl/reference/scalar_reference.h"
#include "impl/reference/testing.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Semantics kZeroRows{EmptyRow::kZero, LseEmptyRow::kMinusInf};

// One query, two keys with scores 0 and ln 3: weights 1/4 and 3/4.
struct TwoKeys {
  Problem p;
  Inputs in;
  TwoKeys() {
    p.kv_len = 2;
    p.head_dim = p.value_dim = 1;
    p.scale = 1.0;
    in = {Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), {}};
    in.q.values = {1};
    in.k.values = {0, std::log(3.0)};
    in.v.values = {8, 4};
  }
};

// What both references, in double and in double-double, have to do.
class ReferenceTest : public ::testing::TestWithParam<decltype(&ComputeReference)> {};
INSTANTIATE_TEST_SUITE_P(Both, ReferenceTest,
                         ::testing::Values(&ComputeReference, &ComputeExtendedReference),
                         [](const auto& which) {
                           return which.index == 0 ? "Double" : "Extended";
                         });

TEST_P(ReferenceTest, TwoKeysComeOutAsOnPaper) {
  TwoKeys two;
  const Reference r = GetParam()(two.p, two.in, kZeroRows);
  EXPECT_NEAR(r.out.values[0], 5.0, 1e-15);
  EXPECT_NEAR(r.lse.values[0], std::log(4.0), 1e-15);
  EXPECT_NEAR(r.weights.values[1], 0.75, 1e-15);
}

TEST_P(ReferenceTest, HiddenNanTakesNoPartAndVisibleNanComesThrough) {
  TwoKeys two;
  two.in.k.values[1] = two.in.v.values[1] = kNaN;
  two.p.key_lengths = {1};
  EXPECT_EQ(GetParam()(two.p, two.in, kZeroRows).out.values[0], 8.0);
  two.p.key_lengths = {2};
  EXPECT_TRUE(std::isnan(GetParam()(two.p, two.in, kZeroRows).out.values[0]));
  two.in.k.values[1] = 0;
  const Reference r = GetParam()(two.p, two.in, kZeroRows);
  EXPECT_TRUE(std::isnan(r.out.values[0]));
  EXPECT_EQ(r.weights.values[0], 0.5);
}

TEST_P(ReferenceTest, EmptyRowsFollowTheSemantics) {
  TwoKeys two;
  two.p.key_lengths = {0};
  const auto run = [&](EmptyRow out, LseEmptyRow lse) {
    return GetParam()(two.p, two.in, {out, lse});
  };
  EXPECT_EQ(run(EmptyRow::kZero, LseEmptyRow::kMinusInf).out.values[0], 0.0);
  EXPECT_EQ(run(EmptyRow::kZero, LseEmptyRow::kMinusInf).lse.values[0], -kInf);
  EXPECT_EQ(run(EmptyRow::kZero, LseEmptyRow::kPlusInf).lse.values[0], kInf);
  EXPECT_TRUE(std::isnan(run(EmptyRow::kNan, LseEmptyRow::kNan).out.values[0]));
  EXPECT_TRUE(std::isnan(run(EmptyRow::kNan, LseEmptyRow::kNan).lse.values[0]));
  EXPECT_EQ(run(EmptyRow::kMeanValue, LseEmptyRow::kMinusInf).out.values[0], 6.0);
  EXPECT_NEAR(run(EmptyRow::kUnmasked, LseEmptyRow::kMinusInf).out.values[0], 5.0, 1e-15);
}

TEST_P(ReferenceTest, QueryHeadsShareTheirGroupsKvHead) {
  Problem p;
  p.q_heads = 6;
  p.kv_heads = 2;
  Inputs in{Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), {}};
  in.v.values = {0, 1};
  const Reference r = GetParam()(p, in, kZeroRows);
  EXPECT_EQ(r.out.values, (std::vector<double>{0, 0, 0, 1, 1, 1}));
}

TEST_P(ReferenceTest, AgreesWithTheScalarReferenceOnRandomProblems) {
  RandomProblems random(20261129);
  int rows = 0;
  for (int round = 0; round < 3000; ++round) {
    const Problem p = random.Draw();
    ASSERT_EQ(Validate(p), std::nullopt);
    const Inputs in = random.Fill(p, round % 3 == 0 ? 20 : 1);
    const Reference first = GetParam()(p, in, kZeroRows);
    const ScalarReference second = ComputeScalarReference(p, in);
    for (size_t i = 0; i < first.out.values.size(); ++i) {
      ASSERT_NEAR(first.out.values[i], second.out.values[i], 1e-11) << "round " << round;
    }
    for (size_t i = 0; i < first.weights.values.size(); ++i) {
      ASSERT_NEAR(first.weights.values[i], second.weights.values[i], 1e-11) << "round " << round;
    }
    for (size_t i = 0; i < first.lse.values.size(); ++i, ++rows) {
      if (first.lse.values[i] != second.lse.values[i]) {
        ASSERT_NEAR(first.lse.values[i], second.lse.values[i],
                    1e-12 * (1 + std::abs(second.lse.values[i])));
      }
    }
  }
  EXPECT_GT(rows, 10000) << "the problems drawn are too small to mean much";
}

}  // namespace
}  // namespace attest
