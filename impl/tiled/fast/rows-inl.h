// Rows of q, k, v and out between their storage and floats, and transposing them. Per target, see
// micro_kernel-inl.h.
#if defined(ATTEST_TILED_FAST_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_ROWS_INL_H_
#undef ATTEST_TILED_FAST_ROWS_INL_H_
#else
#define ATTEST_TILED_FAST_ROWS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstring>

#include "impl/abi/call_view.h"
#include "impl/abi/input_rows.h"
#include "impl/tiled/fast/micro_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

// Highway 1.0.3 converts f16 in its own way where the machine has no instruction for it: there rows
// go element by element through Eigen.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr bool kHasHalf = true;
#else
constexpr bool kHasHalf = false;
#endif

// A vector of `in`, exactly, as floats. At most Lanes(Floats) elements are read.
HWY_INLINE Vector Widen(const float* in) {
  return hn::LoadU(Floats(), in);
}

HWY_INLINE Vector Widen(const Eigen::bfloat16* in) {
  const hn::RebindToUnsigned<Floats> wide;
  const hn::Rebind<uint16_t, Floats> narrow;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(in));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}

HWY_INLINE Vector Widen(const Eigen::half* in) {
  const hn::Rebind<hwy::float16_t, Floats> narrow;
  return hn::PromoteTo(Floats(), hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(in)));
}

// Rounds to nearest, ties to even; NaN stays NaN.
HWY_INLINE void Narrow(Vector x, float* out) {
  hn::StoreU(x, Floats(), out);
}

HWY_INLINE void Narrow(Vector x, Eigen::bfloat16* out) {
  const hn::RebindToUnsigned<Floats> wide;
  const hn::RebindToSigned<Floats> signed_wide;
  const hn::Rebind<uint16_t, Floats> narrow;
  const auto bits = hn::BitCast(wide, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(wide, 0x400000));
  const auto kept = hn::IfThenElse(hn::RebindMask(wide, hn::Eq(x, x)), rounded, quiet);
  const auto top = hn::BitCast(signed_wide, hn::ShiftRight<16>(kept));
  hn::StoreU(hn::DemoteTo(narrow, top), narrow, reinterpret_cast<uint16_t*>(out));
}

HWY_INLINE void Narrow(Vector x, Eigen::half* out) {
  const hn::Rebind<hwy::float16_t, Floats> narrow;
  hn::StoreU(hn::DemoteTo(narrow, x), narrow, reinterpret_cast<hwy::float16_t*>(out));
}

template <typename T>
constexpr bool kInVectors = kHasHalf || !std::is_same_v<T, Eigen::half>;

template <typename T>
HWY_NOINLINE void LoadRow(const RowSpan<const T>& row, int64_t size, float* out) {
  int64_t n = 0;
  if constexpr (kInVectors<T>) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
    for (; row.stride == 1 && n + lanes <= size; n += lanes) {
      hn::StoreU(Widen(row.data + n), Floats(), out + n);
    }
  }
  for (; n < size; ++n) out[n] = static_cast<float>(row[n]);
}

template <typename T>
HWY_NOINLINE void StoreRow(const float* in, int64_t size, const RowSpan<T>& row) {
  int64_t n = 0;
  if constexpr (kInVectors<T>) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
    for (; row.stride == 1 && n + lanes <= size; n += lanes) {
      Narrow(hn::LoadU(Floats(), in + n), row.data + n);
    }
  }
  for (; n < size; ++n) row[n] = static_cast<T>(in[n]);
}

constexpr size_t kLanes = hn::MaxLanes(Floats());

// The target for machines with none of the others has one lane, and no blocks.
#if HWY_TARGET != HWY_SCALAR
// Within each block of four lanes, vectors as rows become vectors as columns.
HWY_INLINE void TransposeBlocks(Vector& a, Vector& b, Vector& c, Vector& e) {
  const Floats d;
  const hn::Repartition<uint64_t, Floats> pairs;
  const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ab_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  a = hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce));
  b = hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce));
  c = hn::BitCast(d, hn::InterleaveLower(pairs, ab_upper, ce_upper));
  e = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_upper, ce_upper));
}

// Four elements of each of the rows 0, 4, 8, ... of `rows`, from column c on, in blocks.
HWY_INLINE Vector LoadBlocks(const float* const* rows, size_t c) {
  const Floats d;
  const auto block = hn::ShiftRight<2>(hn::Iota(hn::RebindToSigned<Floats>(), 0));
  Vector all = hn::LoadDup128(d, rows[0] + c);
#pragma GCC unroll 4
  for (size_t n = 1; n < kLanes / 4; ++n) {
    const auto number = hn::Set(hn::RebindToSigned<Floats>(), static_cast<int32_t>(n));
    const auto is_here = hn::RebindMask(d, hn::Eq(block, number));
    all = hn::IfThenElse(is_here, hn::LoadDup128(d, rows[4 * n] + c), all);
  }
  return all;
}
#endif

// out[c * out_step + n] = rows[n][c] * factor for one vector of rows and c < columns.
HWY_NOINLINE void Transpose(const float* const* rows, size_t columns, float factor, float* out,
                            size_t out_step) {
  for (size_t n = 0; n < kLanes; ++n) {
    // In the order of addresses, as hardware expects it: what follows goes down a column of lines.
    for (size_t line = 0; line < columns; line += 16) hwy::Prefetch(rows[n] + line);
  }
  size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const Floats d;
  const Vector by = hn::Set(d, factor);
  for (; c + 4 <= columns; c += 4) {
    Vector x[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) x[k] = LoadBlocks(rows + k, c);
    TransposeBlocks(x[0], x[1], x[2], x[3]);
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) hn::StoreU(hn::Mul(x[k], by), d, out + (c + k) * out_step);
  }
#endif
  for (; c < columns; ++c) {
    for (size_t n = 0; n < kLanes; ++n) out[c * out_step + n] = rows[n][c] * factor;
  }
}

// rows[n][c] = in[c * in_step + n] * factors[n] for one vector of n and c < columns.
HWY_NOINLINE void TransposeBack(const float* in, size_t in_step, Vector factors, size_t columns,
                                float* const* rows) {
  const Floats d;
  HWY_ALIGN float pieces[4][kLanes];
  size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; c + 4 <= columns; c += 4) {
    Vector x[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) x[k] = hn::Mul(hn::LoadU(d, in + (c + k) * in_step), factors);
    TransposeBlocks(x[0], x[1], x[2], x[3]);
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) hn::Store(x[k], d, pieces[k]);
#pragma GCC unroll 16
    for (size_t n = 0; n < kLanes; ++n) {
      std::memcpy(rows[n] + c, pieces[n % 4] + n / 4 * 4, 4 * sizeof(float));
    }
  }
#endif
  for (; c < columns; ++c) {
    hn::Store(hn::Mul(hn::LoadU(d, in + c * in_step), factors), d, pieces[0]);
    for (size_t n = 0; n < kLanes; ++n) rows[n][c] = pieces[0][n];
  }
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
