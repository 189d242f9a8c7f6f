#include "impl/reference/double_double.h"

#include <array>

namespace attest {
namespace {

constexpr int kStepBits = 8;
constexpr int kSteps = 1 << kStepBits;  // in the table of powers of two

// ln 2 / kSteps in three parts of which the first two have 32 bits, so that their products with the
// whole numbers below 2^19 that Exp needs are exact. What is missing is below 2^-126.
constexpr double kStep[] = {0x1.62e42fee00000p-9, 0x1.a39ef35600000p-41, 0x1.93c7673007e5fp-73};
constexpr double kStepsPerUnit = 0x1.71547652b82fep+8;  // kSteps / ln 2

// 2^(k/256) for k in [0, 256): k's bits choose among 2^(1/2), 2^(1/4) ... 2^(1/256), each the root
// of the one before. Eight roots (3.125u^2 and half the error of the one before: below 7u^2 in all)
// and eight products: relative error at most 8 * (7 + 5)u^2 < 2^-99.
class PowersOfTwo {
 public:
  PowersOfTwo() {
    powers_.fill({1, 0});
    DoubleDouble root{2, 0};
    for (int bit = kSteps / 2; bit > 0; bit /= 2) {
      root = Sqrt(root);
      for (int k = 0; k < kSteps; ++k) {
        DoubleDouble& power = powers_[static_cast<size_t>(k)];
        if (k & bit) power = power * root;
      }
    }
  }
  const DoubleDouble& operator[](uint64_t k) const { return powers_[k % kSteps]; }

 private:
  std::array<DoubleDouble, kSteps> powers_;
};

// x * 2^exponent, rounded once where it is subnormal.
DoubleDouble Scaled(const DoubleDouble& x, int64_t exponent) {
  const auto power = [](int64_t e) {
    return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52);
  };
  if (exponent < -900) {
    const double first = power(exponent + 600), second = power(-600);
    return {x.high * first * second, x.low * first * second};
  }
  return {x.high * power(exponent), x.low * power(exponent)};
}

// e^r - 1 for |r| <= 0.00136: Taylor, r and r^2 / 2 in double-double, the terms from the third to
// the seventh in double. The first left out is below 2^-91; the third is below 2^-31 and carries a
// few roundings of 2^-53. Error at most 2^-81, absolute.
DoubleDouble ExpMinusOne(const DoubleDouble& r) {
  const double x = r.high;
  const double tail =
      x * x * x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x / 5040))));
  const DoubleDouble square = TwoProduct(x, x);
  const DoubleDouble sum = FastTwoSum(x, 0.5 * square.high);
  return FastTwoSum(sum.high, sum.low + (r.low + (0.5 * square.low + x * r.low + tail)));
}

}  // namespace

// x = k ln2/256 + r: e^x = 2^(k / 256) * 2^(k % 256 / 256) * e^r. With |k| < 2^19 the first two
// products are exact, the third errs by 2^-107, and summing the low parts by 2^-53 of x.low, below
// 2^-97: small beside the 2^-81 of ExpMinusOne.
DoubleDouble Exp(const DoubleDouble& x) {
  if (!(x.high > -746)) return {std::isnan(x.high) ? x.high : 0.0, 0};
  if (x.high > 709) return {HUGE_VAL, 0};
  static const PowersOfTwo kPowers;
  // Adding 1.5 * 2^52 leaves the nearest whole number in the low bits.
  constexpr double kRounder = 0x1.8p52;
  const double shifted = x.high * kStepsPerUnit + kRounder;
  const double k = shifted - kRounder;
  const auto whole =
      static_cast<int64_t>(std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(kRounder));
  const DoubleDouble first = TwoSum(x.high, -k * kStep[0]);
  const DoubleDouble second = TwoSum(first.high, -k * kStep[1]);
  const DoubleDouble rest = TwoSum(second.high, (x.low - k * kStep[2]) + (first.low + second.low));
  const DoubleDouble power = kPowers[static_cast<uint64_t>(whole)];
  // A right shift of a negative number rounds down, as it must.
  return Scaled(power + power * ExpMinusOne(rest), whole >> kStepBits);
}

// Up to 1/4 by sinh and cosh, the Taylor series of both in Horner's form up to x^18: what is left out
// is below 2^-93 of either. Each of the nine steps makes less than 2^-100. Beyond, as (e^2x - 1) /
// (e^2x + 1): there e^2x - 1 is at least 0.39 e^2x, and so wrong by at most 2.6 * 2^-80, the sum by
// 2^-80, at 40 by nothing: 1 - tanh is below 2^-114.
DoubleDouble Tanh(const DoubleDouble& x) {
  if (std::abs(x.high) > 40) return {std::copysign(1.0, x.high), 0};
  if (!(std::abs(x.high) < 0.25)) {
    const DoubleDouble power = Exp(x * 2.0);
    return (power + -1.0) / (power + 1.0);
  }
  const DoubleDouble square = x * x;
  DoubleDouble sinh_by_x{1, 0}, cosh{1, 0};
  for (double n = 18; n > 0; n -= 2) {
    sinh_by_x = square * sinh_by_x / DoubleDouble{n * (n + 1), 0} + 1.0;
    cosh = square * cosh / DoubleDouble{n * (n - 1), 0} + 1.0;
  }
  return x * sinh_by_x / cosh;
}

// One step of Newton's from the double logarithm, whose error e is at most an ulp, 2^-44 at the ends
// of the range: the step leaves e^2 / 2 < 2^-88, and the 2^-80 of Exp.
DoubleDouble Log(const DoubleDouble& x) {
  const double first = std::log(x.high);
  const DoubleDouble correction = x * Exp({-first, 0}) + -1.0;
  return correction + first;
}

}  // namespace attest
