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

TEST_P(ReferenceTest, TheSoftcapComesBeforeTheBiasOrAfterIt) {
  TwoKeys two;
  two.p.softcap = 2;
  two.p.bias = BitPlane{{1, 1, 1, 2}, 4, {1, 1}};
  two.in.bias = Array({1, 1, 1, 2});
  two.in.bias.values = {3, 0};
  two.in.k.values = {1, -4};
  const auto scores = [&](SoftcapOrder order, ScoreMode mode) {
    two.p.want_scores = mode;
    const Semantics semantics{EmptyRow::kZero, LseEmptyRow::kMinusInf, order};
    return GetParam()(two.p, two.in, semantics).asked_scores.values;
  };
  const auto near = [](const std::vector<double>& got, double first, double second) {
    EXPECT_NEAR(got[0], first, 1e-15);
    EXPECT_NEAR(got[1], second, 1e-15);
  };
  near(scores(SoftcapOrder::kBeforeBias, ScoreMode::kRaw), 1, -4);
  near(scores(SoftcapOrder::kBeforeBias, ScoreMode::kCapped), 2 * std::tanh(0.5),
       2 * std::tanh(-2));
  near(scores(SoftcapOrder::kBeforeBias, ScoreMode::kBiased), 3 + 2 * std::tanh(0.5),
       2 * std::tanh(-2));
  near(scores(SoftcapOrder::kAfterBias, ScoreMode::kCapped), 2 * std::tanh(2), 2 * std::tanh(-2));
  near(scores(SoftcapOrder::kAfterBias, ScoreMode::kBiased), 2 * std::tanh(2), 2 * std::tanh(-2));
}

TEST_P(ReferenceTest, ASinkTakesItsShareAndARowWithNothingElseIsZero) {
  TwoKeys two;
  two.p.sinks = {std::log(4.0)};  // as much as both keys
  const Reference r = GetParam()(two.p, two.in, kZeroRows);
  EXPECT_NEAR(r.out.values[0], 2.5, 1e-15);
  EXPECT_NEAR(r.lse.values[0], std::log(8.0), 1e-15);
  EXPECT_NEAR(r.weights.values[0], 0.125, 1e-15);
  two.p.key_lengths = {0};
  const Reference alone = GetParam()(two.p, two.in, {EmptyRow::kNan, LseEmptyRow::kNan});
  EXPECT_EQ(alone.out.values[0], 0);
  EXPECT_EQ(alone.lse.values[0], std::log(4.0));
  EXPECT_EQ(alone.weights.values, (std::vector<double>{0, 0}));
}

TEST_P(ReferenceTest, DropoutComesAfterTheSoftmax) {
  TwoKeys two;
  two.p.dropout = Dropout{0.75, {{1, 1, 1, 2}, 4, {0, 1}}};
  const Reference r = GetParam()(two.p, two.in, kZeroRows);
  EXPECT_NEAR(r.out.values[0], 4 * 0.75 * 4, 1e-14);
  EXPECT_NEAR(r.lse.values[0], std::log(4.0), 1e-15);
  EXPECT_NEAR(r.weights.values[0], 0.25, 1e-15);
}

TEST_P(ReferenceTest, AlibiFallsOffFromTheDiagonal) {
  TwoKeys two;
  two.p.diagonal_offset = {1};
  two.p.alibi_slopes = {std::log(2.0)};
  two.in.k.values = {0, 0};
  const Reference r = GetParam()(two.p, two.in, kZeroRows);
  EXPECT_NEAR(r.weights.values[1], 2.0 / 3, 1e-15);
}

TEST_P(ReferenceTest, AskedScoresAreOfHiddenKeysTooUnlessHidingIsPartOfThem) {
  TwoKeys two;
  two.p.key_lengths = {1};
  const auto second = [&](ScoreMode mode) {
    two.p.want_scores = mode;
    return GetParam()(two.p, two.in, kZeroRows).asked_scores.values[1];
  };
  EXPECT_EQ(second(ScoreMode::kRaw), std::log(3.0));
  EXPECT_EQ(second(ScoreMode::kCapped), std::log(3.0));
  EXPECT_EQ(second(ScoreMode::kBiased), -kInf);
  EXPECT_EQ(second(ScoreMode::kWeights), 0);
  two.in.k.values[1] = kNaN;
  EXPECT_TRUE(std::isnan(second(ScoreMode::kRaw)));
  EXPECT_EQ(GetParam()(two.p, two.in, kZeroRows).out.values[0], 8);
}

void ExpectNear(const Array& first, const Array& second, double relative, int round) {
  ASSERT_EQ(first.shape, second.shape);
  for (size_t i = 0; i < first.values.size(); ++i) {
    const double a = first.values[i], b = second.values[i];
    if (a == b) continue;
    ASSERT_NEAR(a, b, relative * (1 + std::abs(b))) << "round " << round;
  }
}

TEST_P(ReferenceTest, AgreesWithTheScalarReferenceOnTheWholeSurface) {
  RandomProblems random(20261129);
  size_t rows = 0, scores = 0;
  for (int round = 0; round < 6000; ++round) {
    const Problem p = random.DrawSurface();
    ASSERT_EQ(Validate(p), std::nullopt);
    const Inputs in = random.Fill(p, round % 3 == 0 ? 20 : 1);
    const SoftcapOrder order = round % 2 ? SoftcapOrder::kAfterBias : SoftcapOrder::kBeforeBias;
    const Reference first = GetParam()(p, in, {EmptyRow::kZero, LseEmptyRow::kMinusInf, order});
    const ScalarReference second = ComputeScalarReference(p, in, order);
    ExpectNear(first.out, second.out, 1e-11, round);
    ExpectNear(first.weights, second.weights, 1e-11, round);
    ExpectNear(first.lse, second.lse, 1e-12, round);
    ExpectNear(first.asked_scores, second.asked_scores, 1e-12, round);
    ASSERT_FALSE(HasFatalFailure());
    rows += first.lse.values.size();
    scores += first.asked_scores.values.size();
  }
  EXPECT_GT(rows, 20000u) << "the problems drawn are too small to mean much";
  EXPECT_GT(scores, 50000u);
}

}  // namespace
}  // namespace attest
