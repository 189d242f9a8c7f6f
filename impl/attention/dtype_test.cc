#include "impl/attention/dtype.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(DTypeTest, NamesRoundTrip) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kBool,
                            DType::kI64, DType::kE4M3, DType::kE5M2}) {
    EXPECT_EQ(ParseDType(Name(dtype)), dtype);
  }
  EXPECT_EQ(ParseDType("f8"), std::nullopt);
}

TEST(DTypeTest, EveryEightBitValueSurvivesAndMidpointsGoToEven) {
  for (const DType dtype : {DType::kE4M3, DType::kE5M2}) {
    for (int bits = 0; bits < 0x7F; ++bits) {
      const auto low_bits = static_cast<uint8_t>(bits), high_bits = static_cast<uint8_t>(bits + 1);
      const double low = LoadElement(dtype, &low_bits), high = LoadElement(dtype, &high_bits);
      if (!std::isfinite(low)) continue;
      EXPECT_EQ(RoundTo(dtype, low), low);
      EXPECT_EQ(RoundTo(dtype, -low), -low);
      uint8_t stored = 0;
      StoreElement(dtype, &stored, -low);
      EXPECT_EQ(stored, low_bits | 0x80);
      if (!std::isfinite(high)) continue;
      const double middle = (low + high) / 2;
      EXPECT_EQ(RoundTo(dtype, middle), bits % 2 == 0 ? low : high);
      EXPECT_EQ(RoundTo(dtype, std::nextafter(middle, 0)), low);
      EXPECT_EQ(RoundTo(dtype, std::nextafter(middle, kInf)), high);
    }
  }
}

// Landmarks of the OCP specification: largest, least normal, least subnormal, and what overflow is.
TEST(DTypeTest, EightBitLandmarksAreThoseOfTheSpecification) {
  EXPECT_EQ(RoundTo(DType::kE4M3, 448), 448);
  EXPECT_EQ(RoundTo(DType::kE4M3, 464), 448);
  EXPECT_TRUE(std::isnan(RoundTo(DType::kE4M3, 465)));
  EXPECT_TRUE(std::isnan(RoundTo(DType::kE4M3, kInf)));
  EXPECT_EQ(RoundTo(DType::kE4M3, 0x1p-9), 0x1p-9);
  EXPECT_EQ(RoundTo(DType::kE5M2, 57344), 57344);
  EXPECT_EQ(RoundTo(DType::kE5M2, 61440), kInf);
  EXPECT_EQ(RoundTo(DType::kE5M2, -0x1p-16), -0x1p-16);
}

// The 16-bit types are small enough to try every value and every midpoint.
TEST(DTypeTest, EverySixteenBitValueSurvivesAndMidpointsGoToEven) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (uint32_t bits = 0; bits < 0x7F80u; ++bits) {
      const auto low_bits = static_cast<uint16_t>(bits);
      const auto high_bits = static_cast<uint16_t>(bits + 1);
      const double low = LoadElement(dtype, &low_bits);
      const double high = LoadElement(dtype, &high_bits);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double middle = (low + high) / 2;
      const double even = bits % 2 == 0 ? low : high;
      ASSERT_EQ(RoundTo(dtype, low), low);
      ASSERT_EQ(RoundTo(dtype, middle), even) << Name(dtype) << " bits " << bits;
      // Just off the midpoint by less than a float can say: rounding twice would get these wrong.
      ASSERT_EQ(RoundTo(dtype, std::nextafter(middle, kInf)), high);
      ASSERT_EQ(RoundTo(dtype, std::nextafter(middle, -kInf)), low);
      ASSERT_EQ(RoundTo(dtype, -std::nextafter(middle, kInf)), -high);
    }
  }
}

TEST(DTypeTest, OverflowAndSpecialValuesFollowTheFormat) {
  EXPECT_EQ(RoundTo(DType::kF16, 65519.99), 65504.0);
  EXPECT_EQ(RoundTo(DType::kF16, 65520.0), kInf);
  EXPECT_EQ(RoundTo(DType::kF32, 1e39), kInf);
  EXPECT_EQ(RoundTo(DType::kBF16, -1e39), -kInf);
  EXPECT_EQ(RoundTo(DType::kF16, 1e300), kInf);
  EXPECT_TRUE(std::isnan(RoundTo(DType::kF16, std::nan(""))));
  EXPECT_TRUE(std::isnan(RoundTo(DType::kBF16, std::nan(""))));
  EXPECT_TRUE(std::signbit(RoundTo(DType::kBF16, -0.0)));
  EXPECT_EQ(RoundTo(DType::kF16, 0x1p-25), 0.0);
  EXPECT_EQ(RoundTo(DType::kF16, 0x1.8p-25), 0x1p-24);
}

TEST(DTypeTest, StoredElementsLoadBack) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    const FormatTraits traits = TraitsOf(dtype);
    for (const double value : {0.0, 1.5, -2.0, traits.max_finite, -traits.max_finite,
                               traits.min_normal, traits.min_subnormal, kInf, -kInf}) {
      std::vector<unsigned char> bytes(ByteSize(dtype));
      StoreElement(dtype, bytes.data(), value);
      EXPECT_EQ(LoadElement(dtype, bytes.data()), value) << Name(dtype);
    }
    EXPECT_EQ(RoundTo(dtype, 1.0 + traits.unit_roundoff), 1.0) << "ties go to even";
    EXPECT_GT(RoundTo(dtype, 1.0 + 1.5 * traits.unit_roundoff), 1.0);
  }
}

}  // namespace
}  // namespace attest
