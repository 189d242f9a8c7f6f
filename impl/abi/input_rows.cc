#include "impl/abi/input_rows.h"

namespace attest {
namespace {

// e5m2 is the upper half of an f16. e4m3 has the same fields one bit further right and an exponent
// bias that is 8 less, subnormals included; its one irregular pattern is NaN in place of a number.
float ValueOf(DType format, unsigned bits) {
  const auto half = [](unsigned pattern) {
    return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(static_cast<uint16_t>(pattern)));
  };
  if (format == DType::kE5M2) return half(bits << 8);
  if ((bits & 0x7F) == 0x7F) return half(0x7E00);
  return 256 * half((bits & 0x80) << 8 | (bits & 0x7F) << 7);
}

std::array<float, 256> AllValues(DType format) {
  std::array<float, 256> values{};
  for (unsigned bits = 0; bits < 256; ++bits) values[bits] = ValueOf(format, bits);
  return values;
}

}  // namespace

const std::array<float, 256>& Fp8Values(DType format) {
  static const std::array<float, 256> kE4M3 = AllValues(DType::kE4M3);
  static const std::array<float, 256> kE5M2 = AllValues(DType::kE5M2);
  return format == DType::kE5M2 ? kE5M2 : kE4M3;
}

}  // namespace attest
