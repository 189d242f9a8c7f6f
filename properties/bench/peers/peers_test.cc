#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "properties/bench/peers/grid.h"
#include "properties/bench/peers/peer_case.h"
#include "properties/bench/peers/rules.h"
#include "properties/bench/peers/suites.h"

namespace attest {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Array Row(const std::vector<double>& values) {
  Array row;
  row.shape = {1, 1, 1, static_cast<int64_t>(values.size())};
  row.values = values;
  return row;
}

bool Accepted(const Rule& rule, const std::vector<double>& got,
              const std::vector<double>& reference, const std::vector<double>& baseline = {},
              DType dtype = DType::kF64) {
  return Accepts(rule, {Row(got), Row(reference), Row(baseline), dtype});
}

TEST(ToleranceRule, IsAbsolutePlusRelative) {
  EXPECT_TRUE(Accepted(ToleranceRule(1e-3, 0), {100.09}, {100}));
  EXPECT_FALSE(Accepted(ToleranceRule(1e-3, 0), {100.11}, {100}));
  EXPECT_TRUE(Accepted(ToleranceRule(1e-3, 0.02), {100.11}, {100}));
  EXPECT_TRUE(Accepted(ToleranceRule(0, 1e-3), {-9e-4}, {0}));
  EXPECT_FALSE(Accepted(ToleranceRule(0, 1e-3), {-1.1e-3}, {0}));
}

TEST(ToleranceRule, OneElementFailsTheTensor) {
  EXPECT_FALSE(Accepted(ToleranceRule(1e-3, 1e-3), {1, 2, 3, 4.1}, {1, 2, 3, 4}));
}

TEST(ToleranceRule, RoundsTheReferenceToTheTypeOfTheOutput) {
  EXPECT_TRUE(Accepted(ToleranceRule(0, 0), {1}, {1 + 0x1p-13}, {}, DType::kF16));
  EXPECT_FALSE(Accepted(ToleranceRule(0, 0), {1}, {1 + 0x1p-13}, {}, DType::kF32));
}

TEST(EveryRule, RejectsWhatIsNotFiniteUnlessItIsRight) {
  for (const Rule& rule :
       {ToleranceRule(0.1, 0.1), MultipleRule(2, 0.1), FudgeRule(3), NmseRule(0.1)}) {
    EXPECT_TRUE(Accepted(rule, {1, 2}, {1, 2}, {1, 2}));
    EXPECT_FALSE(Accepted(rule, {1, kNan}, {1, 2}, {1, 2}));
    EXPECT_FALSE(Accepted(rule, {1, kInfinity}, {1, 2}, {1, 2}));
    EXPECT_FALSE(Accepted(rule, {1, kInfinity}, {1, -kInfinity}, {1, -kInfinity}));
    EXPECT_FALSE(Accepted(rule, {1, 2}, {1, -kInfinity}, {1, -kInfinity}));
    EXPECT_TRUE(Accepted(rule, {1, -kInfinity}, {1, -kInfinity}, {1, -kInfinity}));
  }
}

TEST(EveryRule, RejectsAnotherShape) {
  EXPECT_FALSE(Accepted(ToleranceRule(1, 1), {1}, {1, 1}));
}

// The largest errors are compared, wherever each of them is.
TEST(MultipleRule, MeasuresTheLargestErrorByTheBaselines) {
  EXPECT_TRUE(Accepted(MultipleRule(2), {1.19, 1}, {1, 1}, {1, 1.1}));
  EXPECT_FALSE(Accepted(MultipleRule(2), {1.21, 1}, {1, 1}, {1, 1.1}));
  EXPECT_TRUE(Accepted(MultipleRule(2, 0.02), {1.21, 1}, {1, 1}, {1, 1.1}));
  EXPECT_FALSE(Accepted(MultipleRule(2), {1.01, 1}, {1, 1}, {1, 1}));
}

TEST(FudgeRule, TakesItsToleranceFromTheBaseline) {
  // Absolute 0.01 and relative 0.01.
  EXPECT_TRUE(Accepted(FudgeRule(1), {1.019}, {1}, {1.01}));
  EXPECT_FALSE(Accepted(FudgeRule(1), {1.021}, {1}, {1.01}));
  EXPECT_TRUE(Accepted(FudgeRule(3), {1.059}, {1}, {1.01}));
}

TEST(FudgeRule, IsNeverBelowTheDefaultsOfTheType) {
  EXPECT_TRUE(Accepted(FudgeRule(1), {1 + 0x1p-9}, {1}, {1}, DType::kF16));
  EXPECT_FALSE(Accepted(FudgeRule(1), {1 + 0x1p-8}, {1}, {1}, DType::kF16));
}

// A baseline that misses a value near zero makes it accept nearly everything.
TEST(FudgeRule, IsVacuousWhereARelativeErrorIsLarge) {
  EXPECT_TRUE(Accepted(FudgeRule(1), {1e-6, 2}, {1e-6, 1}, {2e-6, 1}));
  EXPECT_FALSE(Accepted(FudgeRule(1), {1e-6, 2}, {1e-6, 1}, {1e-6, 1}));
}

TEST(NmseRule, LooksAtTheWholeTensor) {
  std::vector<double> reference(10000, 1), got(reference);
  got[0] = 3;  // 4 of 10000
  EXPECT_TRUE(Accepted(NmseRule(5e-4), got, reference));
  got[1] = 3;
  EXPECT_FALSE(Accepted(NmseRule(5e-4), got, reference));
}

std::optional<double> UnitCost(const Point&) {
  return 1;
}

TEST(Thin, KeepsEveryValueAndEveryPairOfFeatures) {
  const std::vector<Axis> axes = {{5, true}, {4, true}, {3}, {2}, {2}};
  const ThinnedGrid grid = Thin(axes, UnitCost, {1, 0});
  EXPECT_EQ(grid.points, 240);
  EXPECT_EQ(grid.values_missing, 0);
  EXPECT_LE(grid.chosen.size(), 12u);
  std::array<std::set<size_t>, 5> values;
  std::set<std::pair<size_t, size_t>> pairs;
  for (const Point& point : grid.chosen) {
    for (size_t a = 0; a < axes.size(); ++a) values[a].insert(point[a]);
    pairs.insert({point[2], point[3]});
  }
  for (size_t a = 0; a < axes.size(); ++a) EXPECT_EQ(values[a].size(), axes[a].values);
  EXPECT_EQ(pairs.size(), 6u);
}

TEST(Thin, LeavesOutWhatIsSkippedOrTooDear) {
  const auto cost = [](const Point& point) -> std::optional<double> {
    if (point[0] == 1) return std::nullopt;
    return point[0] == 2 ? 100 : 1;
  };
  const ThinnedGrid grid = Thin({{4}}, cost, {10, 100});
  EXPECT_EQ(grid.points, 3);
  EXPECT_EQ(grid.values_missing, 2);
  EXPECT_EQ(grid.chosen, (std::vector<Point>{{0}, {3}}));
}

TEST(Thin, SpendsWhatIsLeft) {
  EXPECT_EQ(Thin({{50}, {50}}, UnitCost, {1, 2500}).chosen.size(), 2500u);
  const size_t cheapest = Thin({{9}, {2}, {2}}, UnitCost, {1, 0}).chosen.size();
  EXPECT_EQ(Thin({{9}, {2}, {2}}, UnitCost, {1, 25}).chosen.size(), 25u);
  EXPECT_LT(cheapest, 25u);
}

TEST(Suites, HoldValidProblemsOnly) {
  for (const PeerSuite& suite : {OnnxSuite(), HandwrittenSuite(), FlashInferSuite()}) {
    EXPECT_FALSE(suite.cases.empty());
    for (const PeerCase& c : suite.cases) {
      EXPECT_EQ(Validate(c.problem).value_or(""), "") << suite.name << " " << c.seed;
      EXPECT_TRUE(c.form.storage != DirectStorage::kPacked || IsPackable(c.problem));
    }
  }
}

TEST(DrawInputs, FollowsTheDistribution) {
  PeerCase c;
  c.problem = ProblemOf({1, 1, 1, 1, 1000, 10, 10}, DType::kF32);
  c.values = Values::kUnit;
  for (const double value : DrawInputs(c).k.values) {
    ASSERT_GE(value, 0);
    ASSERT_LE(value, 1);
  }
  c.values = Values::kNormal;
  double sum = 0, squares = 0;
  for (const double value : DrawInputs(c).v.values) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 1e4, 0, 0.05);
  EXPECT_NEAR(squares / 1e4, 1, 0.05);
}

}  // namespace
}  // namespace attest
