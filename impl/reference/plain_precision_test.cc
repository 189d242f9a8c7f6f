#include "impl/reference/plain_precision.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "impl/reference/testing.h"

namespace attest {
namespace {

constexpr NumericsProfile kAllF64 = {DType::kF64, DType::kF64, DType::kF64};

// Two keys, of which the first has value 1 and the other 0: out is the logistic function of the
// difference of their scores, 1/2 where it was lost.
struct TwoKeys {
  Problem p;
  Inputs in;
  TwoKeys() {
    p.kv_len = 2;
    p.head_dim = 3;
    p.scale = 1;
    in = {Array(p.QShape(), 1), Array(p.KShape()), Array(p.VShape()), {}};
    in.v.values = {1, 0};
  }
  double Out(const NumericsProfile& profile) const {
    return ComputePlainPrecision(p, in, profile).values[0];
  }
};

double Logistic(double difference) {
  return 1 / (1 + std::exp(-difference));
}

// Rounding the whole sum would keep the two ones together; rounding each step loses both.
TEST(PlainPrecisionTest, EveryStepOfASumIsRoundedToTheAccumulator) {
  TwoKeys two;
  two.in.k.values = {2048, 1, 1, 2048, 0, 0};  // f16 has 2050, but no 2049
  NumericsProfile profile;
  EXPECT_NEAR(two.Out(profile), Logistic(2), 1e-6);
  profile.accumulate = DType::kF16;
  EXPECT_EQ(two.Out(profile), 0.5);
  two.in.k.values = {256, 1, 1, 256, 0, 0};  // and bf16 no 257
  EXPECT_NEAR(two.Out(profile), Logistic(2), 1e-3);
  profile.accumulate = DType::kBF16;
  EXPECT_EQ(two.Out(profile), 0.5);
  two.in.k.values = {0x1p24, 1, 1, 0x1p24, 0, 0};
  EXPECT_EQ(two.Out(NumericsProfile{}), 0.5);
  EXPECT_NEAR(two.Out(kAllF64), Logistic(2), 1e-7) << "out itself is f32";
}

// (1 + 2^-10)^2 is 1 + 2^-9 in f16; with its last bit, 2^-20, a sum with 2^-11 would round up.
TEST(PlainPrecisionTest, ProductsAreRoundedBeforeTheyAreAdded) {
  TwoKeys two;
  two.p.scale = 1024;
  two.in.q.values = {1, 1 + 0x1p-10, 1};
  two.in.k.values = {0x1p-11, 1 + 0x1p-10, 0, 0, 0, 1 + 0x1p-9};
  NumericsProfile profile;
  EXPECT_NEAR(two.Out(profile), Logistic(0.5 + 0x1p-10), 1e-4);
  profile.accumulate = DType::kF16;
  EXPECT_EQ(two.Out(profile), 0.5);
}

TEST(PlainPrecisionTest, ScoresAreRoundedToTheirType) {
  TwoKeys two;
  two.in.k.values = {256, 1, 0, 256, 0, 0};
  NumericsProfile profile;
  profile.scores = DType::kBF16;
  EXPECT_EQ(two.Out(profile), 0.5);
  profile.scores = DType::kF16;
  EXPECT_NEAR(two.Out(profile), Logistic(1), 1e-6);
}

TEST(PlainPrecisionTest, WeightsAreNormalisedAndThenRounded) {
  Problem p;
  p.kv_len = 3;
  p.dtype = DType::kF64;
  Inputs in{Array(p.QShape()), Array(p.KShape()), Array(p.VShape(), 1), {}};
  NumericsProfile profile = kAllF64;
  EXPECT_NEAR(ComputePlainPrecision(p, in, profile).values[0], 1, 0x1p-51);
  profile.probability = DType::kF16;
  EXPECT_EQ(ComputePlainPrecision(p, in, profile).values[0], 3 * RoundTo(DType::kF16, 1.0 / 3));
}

TEST(PlainPrecisionTest, QueriesScaledInStorageAreRoundedThere) {
  TwoKeys two;
  two.p.dtype = DType::kBF16;
  two.p.scale = 1.5;
  two.p.bias = BitPlane{{1, 1, 1, 2}, 4, {1, 1}};
  two.in.bias = Array({1, 1, 1, 2});
  two.in.bias.values = {0, 256};
  two.in.q.values = {171, 0, 0};  // 1.5 * 171 = 256.5, which bf16 rounds to 256
  two.in.k.values = {1, 0, 0, 0, 0, 0};
  NumericsProfile profile;
  EXPECT_EQ(two.Out(profile), RoundTo(DType::kBF16, Logistic(0.5)));
  profile.scale_placement = ScalePlacement::kStorage;
  EXPECT_EQ(two.Out(profile), 0.5);
}

TEST(PlainPrecisionTest, HiddenKeysTakeNoPartAndEmptyRowsAreZero) {
  TwoKeys two;
  two.in.k.values[3] = two.in.v.values[1] = std::numeric_limits<double>::quiet_NaN();
  two.p.key_lengths = {1};
  EXPECT_EQ(two.Out(NumericsProfile{}), 1);
  two.p.key_lengths = {0};
  EXPECT_EQ(two.Out(NumericsProfile{}), 0);
  two.p.key_lengths = {2};
  EXPECT_TRUE(std::isnan(two.Out(NumericsProfile{})));
}

// Largest error against the double reference on normal problems, in units of `u`.
double LargestError(DType dtype, const NumericsProfile& profile, double u) {
  RandomProblems random(3);
  double largest = 0;
  for (int round = 0; round < 500; ++round) {
    Problem p = random.Draw();
    p.dtype = dtype;
    const Inputs in = random.Fill(p, 1);
    const Array plain = ComputePlainPrecision(p, in, profile);
    const Reference reference = ComputeReference(p, in, {EmptyRow::kZero, LseEmptyRow::kMinusInf});
    EXPECT_EQ(plain.shape, reference.out.shape);
    for (size_t i = 0; i < plain.values.size(); ++i) {
      EXPECT_EQ(plain.values[i], RoundTo(dtype, plain.values[i]));
      largest = std::max(largest, std::abs(plain.values[i] - reference.out.values[i]) / u);
    }
  }
  return largest;
}

// Values are normal, scores of a few units, rows of at most 11 keys: errors are some units of the
// roundoff that rules, and not none.
TEST(PlainPrecisionTest, ErrorsAreOfTheSizeOfTheRoundoffThatRules) {
  const auto is_some_units = [](double error) { return error > 0.5 && error < 100; };
  EXPECT_TRUE(is_some_units(LargestError(DType::kF64, DefaultNumerics(DType::kF64), 0x1p-53)));
  EXPECT_TRUE(is_some_units(LargestError(DType::kF32, DefaultNumerics(DType::kF32), 0x1p-24)));
  EXPECT_TRUE(is_some_units(LargestError(DType::kF16, DefaultNumerics(DType::kF16), 0x1p-11)));
  EXPECT_TRUE(is_some_units(LargestError(DType::kBF16, DefaultNumerics(DType::kBF16), 0x1p-8)));
  NumericsProfile narrow = DefaultNumerics(DType::kF32);
  narrow.accumulate = DType::kBF16;
  EXPECT_TRUE(is_some_units(LargestError(DType::kF32, narrow, 0x1p-8)));
}

}  // namespace
}  // namespace attest
