#include "impl/reference/double_double.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "impl/reference/testing.h"

namespace attest {
namespace {

Quad ToQuad(const DoubleDouble& x) {
  return Quad{x.high} + Quad{x.low};
}

// |x - exact| in units of 2^-106 |exact|: u^2, the unit of double_double.h's bounds.
double ErrorInUnits(const DoubleDouble& x, Quad exact) {
  const Quad error = ToQuad(x) - exact, magnitude = exact < 0 ? -exact : exact;
  return static_cast<double>((error < 0 ? -error : error) / magnitude) * 0x1p106;
}

// Numbers of every size and sign up to 2^100, with 106 random bits.
class Drawn {
 public:
  DoubleDouble operator()() {
    const double high = Signed() * std::ldexp(1.0, static_cast<int>(engine_() % 200) - 100);
    return TwoSum(high, high * 0x1p-53 * Signed() / 2);
  }
  double Signed() { return std::uniform_real_distribution<double>(-1, 1)(engine_); }

 private:
  std::mt19937_64 engine_{20261201};
};

TEST(DoubleDoubleTest, SumsAndProductsOfDoublesAreExact) {
  Drawn draw;
  for (int round = 0; round < 20000; ++round) {
    const double a = draw().high;
    const double b = a * draw.Signed() * std::ldexp(1.0, round % 100 - 50);  // 113 bits hold a + b
    ASSERT_TRUE(ToQuad(TwoProduct(a, b)) == Quad{a} * Quad{b});
    ASSERT_TRUE(ToQuad(TwoSum(a, b)) == Quad{a} + Quad{b});
    ASSERT_EQ(TwoProduct(a, b).high, a * b);
    ASSERT_EQ(TwoSum(a, b).high, a + b);
  }
}

TEST(DoubleDoubleTest, HalvesAreExactUpToTheLargestDouble) {
  Drawn draw;
  for (int round = 0; round < 10000; ++round) {
    for (const double x : {draw().high, draw.Signed() * 0x1p1023, draw.Signed() * 0x1p-1040}) {
      const Halves halves = SplitInHalves(x);
      ASSERT_EQ(halves.high + halves.low, x);
      for (const double half : {halves.high, halves.low}) {
        int exponent = 0;
        const double significand = std::ldexp(std::frexp(half, &exponent), 26);
        ASSERT_EQ(significand, std::trunc(significand)) << x;
      }
    }
  }
}

TEST(DoubleDoubleTest, OperationsStayWithinTheirPublishedBounds) {
  Drawn draw;
  for (int round = 0; round < 20000; ++round) {
    const DoubleDouble x = draw(), y = draw();
    const Quad a = ToQuad(x), b = ToQuad(y);
    const double of_quad = 0x1p-5;  // 113 bits are 2^-7 of the unit; some roundings
    ASSERT_LE(ErrorInUnits(x * y, a * b), 5 + of_quad);
    ASSERT_LE(ErrorInUnits(x * y.high, a * Quad{y.high}), 2 + of_quad);
    ASSERT_LE(ErrorInUnits(x / y, a / b), 15 + of_quad);
    ASSERT_LE(ErrorInUnits(x + y, a + b), 3 + of_quad);
    ASSERT_LE(ErrorInUnits(x + y.high, a + Quad{y.high}), 2 + of_quad);
    const DoubleDouble positive = x.high > 0 ? x : x * -1.0;
    const DoubleDouble root = Sqrt(positive);
    ASSERT_LE(ErrorInUnits(root * root, ToQuad(positive)), 2 * 25 / 8.0 + 5 + of_quad);
  }
}

TEST(DoubleDoubleTest, SumsThatCancelKeepTheirAccuracy) {
  Drawn draw;
  for (int round = 0; round < 20000; ++round) {
    // Low parts of 26 bits, so that 113 bits hold both numbers and their sum.
    const DoubleDouble any = draw();
    const DoubleDouble x{any.high, SplitInHalves(any.low).high};
    const DoubleDouble y{-x.high * (1 + draw.Signed() * 0x1p-30),
                         SplitInHalves(x.low * draw.Signed()).high};
    ASSERT_LE(ErrorInUnits(x + y, ToQuad(x) + ToQuad(y)), 3 + 0x1p-5);
  }
}

TEST(DoubleDoubleTest, ExpIsGoodToEightyBits) {
  Drawn draw;
  for (int round = 0; round < 5000; ++round) {
    const double span = round % 3 == 0 ? 640 : round % 3 == 1 ? 8 : 0x1p-10;
    const DoubleDouble x = TwoSum(draw.Signed() * span, draw.Signed() * span * 0x1p-54);
    ASSERT_LE(ErrorInUnits(Exp(x), QuadExp(ToQuad(x))), 0x1p26) << x.high;
    const long double other = std::exp(static_cast<long double>(x.high) + x.low);
    ASSERT_NEAR(Exp(x).high / static_cast<double>(other), 1, 0x1p-51) << x.high;
  }
}

TEST(DoubleDoubleTest, ExpTurnsSumsIntoProducts) {
  Drawn draw;
  for (int round = 0; round < 5000; ++round) {
    const DoubleDouble a = TwoSum(draw.Signed() * 300, draw.Signed() * 0x1p-50);
    const DoubleDouble b = TwoSum(draw.Signed() * 300, draw.Signed() * 0x1p-50);
    const DoubleDouble quotient = Exp(a) * Exp(b) / Exp(a + b);
    ASSERT_LE(std::abs((quotient + -1.0).high), 0x1p-78);
  }
}

TEST(DoubleDoubleTest, ExpEndsWhereDoubleDoes) {
  EXPECT_EQ(Exp({0, 0}).high, 1);
  EXPECT_EQ(Exp({0, 0}).low, 0);
  EXPECT_NEAR(Exp({-740, 0}).high, std::exp(-740.0), 0x1p-1074);
  EXPECT_EQ(Exp({-746, 0}).high, 0);
  EXPECT_EQ(Exp({-std::numeric_limits<double>::infinity(), 0}).high, 0);
  EXPECT_NEAR(Exp({709, 0}).high / std::exp(709.0), 1, 0x1p-51);
  EXPECT_TRUE(std::isinf(Exp({710, 0}).high));
  EXPECT_TRUE(std::isnan(Exp({std::nan(""), 0}).high));
}

// Near 0, where a tanh made of exp loses digits, against its own series.
Quad QuadTanh(Quad x) {
  const Quad square = x * x;
  if (square < 0x1p-20) {
    const Quad seventh = square * (Quad{62} / 2835 - square * (Quad{1382} / 155925));
    return x * (1 - square * (Quad{1} / 3 -
                              square * (Quad{2} / 15 - square * (Quad{17} / 315 - seventh))));
  }
  const Quad power = QuadExp(2 * x);
  return (power - 1) / (power + 1);
}

TEST(DoubleDoubleTest, TanhIsGoodToSeventySevenBits) {
  Drawn draw;
  for (int round = 0; round < 5000; ++round) {
    const double span = std::ldexp(1.0, round % 50 - 44);  // up to 32
    const DoubleDouble x = TwoSum(draw.Signed() * span, draw.Signed() * span * 0x1p-54);
    ASSERT_LE(ErrorInUnits(Tanh(x), QuadTanh(ToQuad(x))), 0x1p29) << x.high;
    const DoubleDouble minus = Tanh(x * -1.0);
    ASSERT_LE(std::abs((minus + Tanh(x)).high), 0x1p-77 * std::abs(minus.high));
  }
}

TEST(DoubleDoubleTest, TanhEndsAtOne) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Tanh({0, 0}).high, 0);
  EXPECT_EQ(Tanh({0x1p-1000, 0}).high, 0x1p-1000);
  for (const double x : {40.0, 41.0, 1e300, inf}) {
    EXPECT_EQ(Tanh({x, 0}).high, 1);
    EXPECT_EQ(Tanh({-x, 0}).high, -1);
  }
  EXPECT_TRUE(std::isnan(Tanh({std::nan(""), 0}).high));
}

TEST(DoubleDoubleTest, LogUndoesExp) {
  Drawn draw;
  for (int round = 0; round < 5000; ++round) {
    const double span = round % 2 == 0 ? 600 : 2;
    const DoubleDouble x = TwoSum(draw.Signed() * span, draw.Signed() * span * 0x1p-54);
    const DoubleDouble there_and_back = Log(Exp(x)) + x * -1.0;
    ASSERT_LE(std::abs(there_and_back.high), 0x1p-78) << x.high;
  }
  EXPECT_EQ(Log({1, 0}).high, 0);
  EXPECT_EQ(Log({2, 0}).high, std::log(2.0));
  EXPECT_NEAR(Log({2, 0}).low, 0x1.abc9e3b39803fp-56, 0x1p-79);  // ln 2 to 106 bits
}

}  // namespace
}  // namespace attest
