// Double-double arithmetic: a number is the unevaluated sum of two doubles, about 106 significant
// bits at the exponent range of double. For the extended reference, which judges kernels that work
// in f64. Written out here because long double is 64 bits on x86-64, 113 in software on arm64 Linux
// and 53 elsewhere: an oracle must not mean different things on different machines.
//
// Every file that includes this header must be compiled with -ffp-contract=off (a fused operation
// instead of a rounded one breaks the error terms below; see CMakeLists.txt) and without
// -ffast-math. u = 2^-53. The bounds hold while no operand or product leaves the normal range. Where
// a product is below 2^-968 its low part is subnormal or gone, an absolute error of up to 2^-1074.
// An infinity or NaN makes the result NaN or infinite in a way that is not IEEE's for one double:
// callers check their results for finiteness and take another way then.
// Sources: Dekker, "A floating-point technique for extending the available precision" (1971), for
// the exact sum and product; Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic
// building blocks of double-word arithmetic" (2017), JMP below, for the rest.
#ifndef ATTEST_REFERENCE_DOUBLE_DOUBLE_H_
#define ATTEST_REFERENCE_DOUBLE_DOUBLE_H_

#include <bit>
#include <cmath>
#include <cstdint>

#ifdef __FAST_MATH__
#error "double-double arithmetic is meaningless under -ffast-math"
#endif

namespace attest {

// high + low, where high is the double nearest to the sum.
struct DoubleDouble {
  double high = 0;
  double low = 0;
};

// The two halves of a double's significand: high + low is exactly it, each has at most 26 bits.
struct Halves {
  double high = 0;
  double low = 0;
};

// Rounds the significand to 26 bits in the integer that stores it, so that, unlike Dekker's
// multiplication by 2^27 + 1, nothing overflows below the largest double but for its last 2^-26.
inline Halves SplitInHalves(double x) {
  constexpr uint64_t kHalf = uint64_t{1} << 26, kLowBits = (kHalf << 1) - 1;
  const double high = std::bit_cast<double>((std::bit_cast<uint64_t>(x) + kHalf) & ~kLowBits);
  return {high, x - high};
}

// a + b exactly (Knuth).
inline DoubleDouble TwoSum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// a + b exactly, where |a| >= |b| or a is 0 (Dekker).
inline DoubleDouble FastTwoSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a * b exactly, with the halves of both at hand (Dekker). A fused multiply-add does it alone where
// it is an instruction; elsewhere std::fma is a slow call.
inline DoubleDouble TwoProduct(double a, const Halves& a_halves, double b, const Halves& b_halves) {
  const double product = a * b;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  static_cast<void>(a_halves), static_cast<void>(b_halves);
  return {product, std::fma(a, b, -product)};
#else
  const double crossed =
      ((a_halves.high * b_halves.high - product) + a_halves.high * b_halves.low) +
      a_halves.low * b_halves.high;
  return {product, crossed + a_halves.low * b_halves.low};
#endif
}

inline DoubleDouble TwoProduct(double a, double b) {
  return TwoProduct(a, SplitInHalves(a), b, SplitInHalves(b));
}

// Relative error at most 2u^2 (JMP, algorithm 4).
inline DoubleDouble operator+(const DoubleDouble& x, double y) {
  const DoubleDouble sum = TwoSum(x.high, y);
  return FastTwoSum(sum.high, x.low + sum.low);
}

// Relative error at most 3u^2 + 13u^3 (JMP, algorithm 6), cancellation or not.
inline DoubleDouble operator+(const DoubleDouble& x, const DoubleDouble& y) {
  const DoubleDouble high = TwoSum(x.high, y.high), low = TwoSum(x.low, y.low);
  const DoubleDouble sum = FastTwoSum(high.high, high.low + low.high);
  return FastTwoSum(sum.high, low.low + sum.low);
}

// Relative error at most 2u^2 (JMP, algorithm 7).
inline DoubleDouble operator*(const DoubleDouble& x, double y) {
  const DoubleDouble product = TwoProduct(x.high, y);
  const DoubleDouble sum = FastTwoSum(product.high, x.low * y);
  return FastTwoSum(sum.high, sum.low + product.low);
}

// Relative error at most 5u^2 (JMP, algorithm 10 and Muller and Rideau's correction of its bound).
inline DoubleDouble operator*(const DoubleDouble& x, const DoubleDouble& y) {
  const DoubleDouble product = TwoProduct(x.high, y.high);
  return FastTwoSum(product.high, product.low + (x.high * y.low + x.low * y.high));
}

// Relative error at most 15u^2 + 56u^3 (JMP, algorithm 17). `y` is not 0.
inline DoubleDouble operator/(const DoubleDouble& x, const DoubleDouble& y) {
  const double quotient = x.high / y.high;
  const DoubleDouble back = y * quotient;
  const double rest = (x.high - back.high) + (x.low - back.low);
  return FastTwoSum(quotient, rest / y.high);
}

// Relative error at most 25/8 u^2 (Lefevre, Louvet, Muller, Picot, Rideau, "Accurate calculation of
// Euclidean norms using double-word arithmetic", 2023). `x` is positive.
inline DoubleDouble Sqrt(const DoubleDouble& x) {
  const double root = std::sqrt(x.high);
  const DoubleDouble square = TwoProduct(root, root);
  const double rest = ((x.high - square.high) - square.low) + x.low;
  return FastTwoSum(root, rest / (2 * root));
}

// e^x for x.high <= 709, with relative error at most 2^-80; Exp(0) is exactly 1. Below -708 results
// become subnormal, with an absolute error of 2^-1074, and below -746 zero.
DoubleDouble Exp(const DoubleDouble& x);

// The hyperbolic tangent, with relative error at most 2^-77. Infinities give +-1, NaN stays NaN.
DoubleDouble Tanh(const DoubleDouble& x);

// The natural logarithm for x.high in [2^-900, 2^900], with an absolute error of at most 2^-79;
// Log(1) is exactly 0.
DoubleDouble Log(const DoubleDouble& x);

}  // namespace attest

#endif  // ATTEST_REFERENCE_DOUBLE_DOUBLE_H_
