#include "properties/bench/distributions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "impl/reference/reference.h"

namespace attest {
namespace {

constexpr SampleShape kShape{3, 64, 32};

TEST(DistributionsTest, EverySampleIsValidAndRounded) {
  Random random(1);
  for (int n = 0; n < 400; ++n) {
    const auto distribution = static_cast<Distribution>(n % kDistributionCount);
    const DType dtype = kFloatTypes[static_cast<size_t>(n) / kDistributionCount % 4];
    const Sample sample = DrawSample(distribution, dtype, kShape, random);
    ASSERT_EQ(Validate(sample.problem), std::nullopt) << Name(distribution);
    for (const Array* tensor :
         {&sample.inputs.q, &sample.inputs.k, &sample.inputs.v, &sample.inputs.bias}) {
      for (const double x : tensor->values) {
        ASSERT_EQ(RoundTo(dtype, x), x) << Name(distribution);
      }
    }
  }
}

// The largest score that the first row of a sample sees, or nothing where it sees no key.
std::optional<double> LargestScore(const Sample& sample) {
  if (IsEmptyRow(sample.problem, {0, 0, 0})) return std::nullopt;
  const Reference reference = ComputeReference(sample.problem, sample.inputs, {});
  double largest = -std::numeric_limits<double>::infinity();
  for (const int64_t j : VisibleKeys(sample.problem, {0, 0, 0})) {
    largest = std::max(largest, reference.scores.At(0, 0, 0, j));
  }
  return largest;
}

TEST(DistributionsTest, ScoresAreWhereTheNameSays) {
  Random random(2);
  double near_ties = 0;
  for (int n = 0; n < 100; ++n) {
    const auto low =
        LargestScore(DrawSample(Distribution::kVeryNegative, DType::kF32, kShape, random));
    EXPECT_LT(low.value_or(-100), -80);
    const auto tie = LargestScore(DrawSample(Distribution::kNearTies, DType::kF32, kShape, random));
    if (tie) near_ties = std::max(near_ties, std::abs(*tie));
  }
  EXPECT_GT(near_ties, 3000);
}

TEST(DistributionsTest, EveryMaskAndABiasOccur) {
  Random random(3);
  int causal = 0, window = 0, mask = 0, bias = 0, plain = 0;
  for (int n = 0; n < 200; ++n) {
    const Problem p = DrawSample(Distribution::kNormal, DType::kF32, kShape, random).problem;
    causal += p.causal;
    window += p.window.active();
    mask += p.mask.has_value();
    bias += p.bias.has_value();
    plain += !p.causal && !p.window.active() && !p.mask;
  }
  for (const int count : {causal, window, mask, bias, plain}) EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace attest
