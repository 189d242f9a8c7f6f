#include "impl/attention/fp8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace attest {
namespace {

struct Format {
  int mantissa_bits;
  int bias;
  int finite;  // non-negative patterns below this are finite
  bool has_infinity;
};

Format FormatOf(DType format) {
  if (format == DType::kE4M3) return {3, 7, 0x7F, false};
  return {2, 15, 0x7C, true};
}

double Magnitude(const Format& f, int bits) {
  const int fraction = bits & ((1 << f.mantissa_bits) - 1), exponent = bits >> f.mantissa_bits;
  if (exponent == 0) return std::ldexp(fraction, 1 - f.bias - f.mantissa_bits);
  return std::ldexp(fraction + (1 << f.mantissa_bits), exponent - f.bias - f.mantissa_bits);
}

}  // namespace

double Fp8Value(DType format, uint8_t bits) {
  const Format f = FormatOf(format);
  const int pattern = bits & 0x7F;
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  if (pattern < f.finite) return sign * Magnitude(f, pattern);
  if (f.has_infinity && pattern == f.finite) return sign * std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

uint8_t Fp8Bits(DType format, double value) {
  const Format f = FormatOf(format);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7F;
  const double size = std::abs(value);
  // Magnitudes rise with their patterns; the one past the last finite stands for what overflows.
  int low = 0, high = f.finite;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (Magnitude(f, middle) <= size ? low : high) = middle;
  }
  const double below = size - Magnitude(f, low), above = Magnitude(f, low + 1) - size;
  if (above < below || (above == below && low % 2 != 0)) ++low;
  if (low < f.finite) return static_cast<uint8_t>(sign | low);
  return sign | (f.has_infinity ? f.finite : 0x7F);
}

}  // namespace attest
