#include "impl/attention/dtype.h"

#include <array>
#include <cstring>
#include <limits>

#include <Eigen/Core>

#include "impl/attention/fp8.h"

namespace attest {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<DTypeRow, 8> kDTypes = {{{DType::kF32, "f32", 4},
                                              {DType::kF64, "f64", 8},
                                              {DType::kF16, "f16", 2},
                                              {DType::kBF16, "bf16", 2},
                                              {DType::kBool, "bool", 1},
                                              {DType::kI64, "i64", 8},
                                              {DType::kE4M3, "e4m3", 1},
                                              {DType::kE5M2, "e5m2", 1}}};

const DTypeRow& RowOf(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}

// Narrows a double to a 16-bit type without rounding twice: the float in between is rounded to odd,
// which keeps enough of the discarded bits for the second rounding to be the right one (Boldo and
// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
// odd").
float RoundToOddFloat(double value) {
  float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || nearest != nearest) return nearest;
  uint32_t bits;
  std::memcpy(&bits, &nearest, sizeof bits);
  const bool away = (static_cast<double>(nearest) > value) == (value > 0);
  if (away) --bits;  // towards zero in magnitude; from infinity this gives the largest finite float
  bits |= 1u;
  std::memcpy(&nearest, &bits, sizeof bits);
  return nearest;
}

template <typename T>
double LoadAs(const void* source) {
  T value;
  std::memcpy(&value, source, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
void StoreAs(void* target, T value) {
  std::memcpy(target, &value, sizeof value);
}

Eigen::half ToHalf(double value) {
  return Eigen::half(RoundToOddFloat(value));
}
Eigen::bfloat16 ToBFloat16(double value) {
  return Eigen::bfloat16(RoundToOddFloat(value));
}

}  // namespace

size_t ByteSize(DType dtype) {
  return RowOf(dtype).bytes;
}

std::string_view Name(DType dtype) {
  return RowOf(dtype).name;
}

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

bool IsFp8(DType dtype) {
  return dtype == DType::kE4M3 || dtype == DType::kE5M2;
}

FormatTraits TraitsOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {0x1p-11, 0x1p-14, 0x1p-24, 65504.0};
    case DType::kBF16:
      return {0x1p-8, 0x1p-126, 0x1p-133, 0x1.FEp127};
    case DType::kF64:
      return {0x1p-53, std::numeric_limits<double>::min(),
              std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()};
    case DType::kE4M3:
      return {0x1p-4, 0x1p-6, 0x1p-9, 448.0};
    case DType::kE5M2:
      return {0x1p-3, 0x1p-14, 0x1p-16, 57344.0};
    default:
      return {0x1p-24, 0x1p-126, 0x1p-149, std::numeric_limits<float>::max()};
  }
}

double RoundTo(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(static_cast<float>(value));
    case DType::kF16:
      return static_cast<double>(static_cast<float>(ToHalf(value)));
    case DType::kBF16:
      return static_cast<double>(static_cast<float>(ToBFloat16(value)));
    case DType::kE4M3:
    case DType::kE5M2:
      return Fp8Value(dtype, Fp8Bits(dtype, value));
    default:
      return value;
  }
}

double LoadElement(DType dtype, const void* source) {
  switch (dtype) {
    case DType::kF32:
      return LoadAs<float>(source);
    case DType::kF64:
      return LoadAs<double>(source);
    case DType::kF16: {
      Eigen::half value;
      std::memcpy(&value.x, source, sizeof value.x);
      return static_cast<double>(static_cast<float>(value));
    }
    case DType::kBF16: {
      Eigen::bfloat16 value;
      std::memcpy(&value.value, source, sizeof value.value);
      return static_cast<double>(static_cast<float>(value));
    }
    case DType::kBool:
      return LoadAs<uint8_t>(source);
    case DType::kI64:
      return static_cast<double>(LoadAs<int64_t>(source));
    case DType::kE4M3:
    case DType::kE5M2: {
      uint8_t bits;
      std::memcpy(&bits, source, sizeof bits);
      return Fp8Value(dtype, bits);
    }
  }
  return 0;
}

void StoreElement(DType dtype, void* target, double value) {
  switch (dtype) {
    case DType::kF32:
      return StoreAs(target, static_cast<float>(value));
    case DType::kF64:
      return StoreAs(target, value);
    case DType::kF16:
      return StoreAs(target, ToHalf(value).x);
    case DType::kBF16:
      return StoreAs(target, ToBFloat16(value).value);
    case DType::kBool:
      return StoreAs(target, static_cast<uint8_t>(value != 0));
    case DType::kI64:
      return StoreAs(target, static_cast<int64_t>(value));
    case DType::kE4M3:
    case DType::kE5M2:
      return StoreAs(target, Fp8Bits(dtype, value));
  }
}

}  // namespace attest
