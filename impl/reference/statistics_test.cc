#include "impl/reference/statistics.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(ErrorStatisticsTest, NothingSeenMeansNothing) {
  const ErrorStatistics none;
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.rms(), 0);
  EXPECT_EQ(none.bias(), 0);
}

TEST(ErrorStatisticsTest, ConstantLeanGivesTheRootOfTheCount) {
  ErrorStatistics away, towards;
  for (int n = 0; n < 400; ++n) {
    const double expected = n % 2 ? 1 : -1;
    away.Add(1e-9 * expected, 1e-6, expected);
    towards.Add(-1e-9 * expected, 1e-6, expected);
  }
  EXPECT_DOUBLE_EQ(away.bias(), 20);
  EXPECT_DOUBLE_EQ(towards.bias(), -20);
  EXPECT_NEAR(away.rms(), 1e-3, 1e-12);
}

TEST(ErrorStatisticsTest, ErrorsOfOneSignDoNotLeanWhereTheValuesHaveBoth) {
  ErrorStatistics shifted;
  for (int n = 0; n < 1000; ++n) shifted.Add(1, 1, n % 2 ? 1 : -1);
  EXPECT_EQ(shifted.bias(), 0);
  EXPECT_EQ(shifted.rms(), 1);
}

// A mean of n squares of unit variance deviates by sqrt(2 / n), a sum of n signs by sqrt(n): five
// and more deviations are allowed.
TEST(ErrorStatisticsTest, ZeroMeanErrorsShowTheirDeviationAndNoLean) {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  ErrorStatistics stats;
  for (int n = 0; n < 20000; ++n) {
    const double spread = std::exp(normal(engine));
    stats.Add(0.5 * spread * normal(engine), spread, normal(engine));
  }
  EXPECT_EQ(stats.count(), 20000);
  EXPECT_NEAR(stats.rms(), 0.5, 0.5 * 5 * std::sqrt(2 / 20000.0));
  EXPECT_LT(std::abs(stats.bias()), 5);
}

TEST(ErrorStatisticsTest, WhatHasNoSpreadOrIsNotFiniteIsPassedOver) {
  ErrorStatistics stats;
  stats.Add(1, 0, 1);
  stats.Add(1, kInf, 1);
  stats.Add(kNaN, 1, 1);
  stats.Add(kInf, 1, 1);
  stats.Add(0, 1, kNaN);
  EXPECT_EQ(stats.count(), 0);
  stats.Add(2, 1, 0);  // no sign to lean to, but an error
  EXPECT_EQ(stats.count(), 1);
  EXPECT_EQ(stats.rms(), 2);
  EXPECT_EQ(stats.bias(), 0);
}

}  // namespace
}  // namespace attest
