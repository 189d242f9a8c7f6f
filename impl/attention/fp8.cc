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

double ComputeMagnitude(const Format& f, int bits) {
  const int fraction = bits & ((1 << f.mantissa_bits) - 1), exponent = bits >> f.mantissa_bits;
  if (exponent == 0) return std::ldexp(fraction, 1 - f.bias - f.mantissa_bits);
  return std::ldexp(fraction + (1 << f.mantissa_bits), exponent - f.bias - f.mantissa_bits);
}

// By pattern, without the sign.
using Magnitudes = std::array<double, 128>;

Magnitudes ComputeMagnitudes(DType format) {
  Magnitudes magnitudes;
  for (size_t bits = 0; bits < magnitudes.size(); ++bits) {
    magnitudes[bits] = ComputeMagnitude(FormatOf(format), static_cast<int>(bits));
  }
  return magnitudes;
}

const Magnitudes& MagnitudesOf(DType format) {
  static const Magnitudes kE4M3 = ComputeMagnitudes(DType::kE4M3);
  static const Magnitudes kE5M2 = ComputeMagnitudes(DType::kE5M2);
  return format == DType::kE4M3 ? kE4M3 : kE5M2;
}

}  // namespace

double Fp8Value(DType format, uint8_t bits) {
  const Format f = FormatOf(format);
  const int pattern = bits & 0x7F;
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  if (pattern < f.finite) return sign * MagnitudesOf(format)[static_cast<size_t>(pattern)];
  if (f.has_infinity && pattern == f.finite) return sign * std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

uint8_t Fp8Bits(DType format, double value) {
  const Format f = FormatOf(format);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7F;
  const double size = std::abs(value);
  // Magnitudes rise with their patterns; the one past the last finite stands for what overflows.
  const Magnitudes& magnitudes = MagnitudesOf(format);
  const auto* first = magnitudes.begin();
  const auto* above_size = std::upper_bound(first + 1, first + f.finite, size);
  int low = static_cast<int>(above_size - first) - 1;
  const double below = size - above_size[-1], above = *above_size - size;
  if (above < below || (above == below && low % 2 != 0)) ++low;
  if (low < f.finite) return static_cast<uint8_t>(sign | low);
  return sign | (f.has_infinity ? f.finite : 0x7F);
}

}  // namespace attest
