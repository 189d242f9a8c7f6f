// The element types of attention tensors, and exact conversion between their storage and double.
// Every value of f16, bf16 and f32 is a double, so the harness keeps all data as doubles that have
// been rounded to their type; only storage (kernel calls) ever sees the narrow formats.
#ifndef ATTEST_ATTENTION_DTYPE_H_
#define ATTEST_ATTENTION_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace attest {

enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kBool,  // one unsigned byte, 0 or 1
  kI64,
  kE4M3,  // 8 bits, see fp8.h; of q, k and v only
  kE5M2,
};

// What the bound needs to know of a floating-point format.
struct FormatTraits {
  double unit_roundoff;  // half an ulp of 1
  double min_normal;
  double min_subnormal;
  double max_finite;
};

size_t ByteSize(DType dtype);
std::string_view Name(DType dtype);  // "f32" "f64" "f16" "bf16" "bool" "i64" "e4m3" "e5m2"
std::optional<DType> ParseDType(std::string_view name);  // inverse of Name
bool IsFloat(DType dtype);  // f32, f64, f16 or bf16: what attention is computed and stored in
bool IsFp8(DType dtype);

// Traits of a floating-point type; `dtype` must satisfy IsFloat or IsFp8.
FormatTraits TraitsOf(DType dtype);

// Rounds to nearest, ties to even; overflows as the format does (e4m3: to NaN, else to infinity). NaN stays NaN.
double RoundTo(DType dtype, double value);

// Reads one element at `source` (no alignment required) as a double. Exact for every type but i64.
double LoadElement(DType dtype, const void* source);

// Writes `value`, rounded to nearest, at `target` (no alignment required).
void StoreElement(DType dtype, void* target, double value);

}  // namespace attest

#endif  // ATTEST_ATTENTION_DTYPE_H_
