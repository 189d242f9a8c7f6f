// The product that both halves of attention are made of, in vector registers. Per target: included
// by block_kernel.cc through Highway's foreach_target.
//
//   out[r][n] += sum over c of a[r][c] * b[c][n]      r < rows, n < vectors * lanes
//
// b and out have their n contiguous, a is read element by element, so that keys and values need not
// be packed. Each out[r][n] is one chain of fused multiply-adds in ascending c, whatever the sizes:
// its bits do not depend on where in a block it stands. Elements may be pairs, see dots-inl.h.
#if defined(ATTEST_TILED_FAST_MICRO_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_MICRO_KERNEL_INL_H_
#undef ATTEST_TILED_FAST_MICRO_KERNEL_INL_H_
#else
#define ATTEST_TILED_FAST_MICRO_KERNEL_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "impl/tiled/fast/dots-inl.h"
#include "impl/tiled/fast/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

// What registers hold: a block of kRows x kVectors sums, kVectors of b and one of a. kTall x kTallVectors
// is another: it reads less of b, for b that may not lie at multiples of a vector. Of one or two rows
// they hold kWide vectors.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
constexpr size_t kRows = 6, kVectors = 2, kWide = 4, kTall = 6, kTallVectors = 2;  // of 16
#else
constexpr size_t kRows = 8, kVectors = 3, kWide = 8, kTall = 12, kTallVectors = 2;  // of 32
#endif

// Where the elements of a lie: a[r][c] = data[r * row_step + c * step].
struct Factors {
  const float* data;
  size_t row_step, step;
};
// b[c][n] = data[c * step + n], whole vectors in the type that stores them.
template <typename T>
struct Columns {
  const T* data;
  size_t step;
};
template <typename T>
HWY_INLINE Vector LoadColumn(const Columns<T>& b, size_t c, size_t n) {
  if constexpr (std::is_same_v<T, Pair>) {
    return hn::LoadU(Floats(), reinterpret_cast<const float*>(b.data + c * b.step + n));
  } else if constexpr (std::is_same_v<T, TwoRows>) {
    const auto* const row = reinterpret_cast<const uint16_t*>(b.data + 2 * c * b.step + n);
    return JoinPairs(LoadFirst(row), LoadSecond(row + b.step));
  } else {
    return Widen(b.data + c * b.step + n);
  }
}
// In every lane. It may be two elements of bf16 where they are stored, which are no float.
HWY_INLINE Vector LoadFactor(const float* data) {
  float factor;
  std::memcpy(&factor, data, sizeof factor);
  return hn::Set(Floats(), factor);
}
template <typename T>
HWY_INLINE Vector AddProduct(Vector a, Vector b, Vector sum) {
  if constexpr (kAreDots<T>) {
    return AddDots(a, b, sum);
  } else {
    return hn::MulAdd(a, b, sum);
  }
}

// The targets of sums, where Put takes those of products of Elements. out[r][n] = data[r * step + n].
struct Sums {
  static constexpr bool kAreLast = false;
  float* data;
  size_t step;

  Sums From(size_t r, size_t n) const { return {data + r * step + n, step}; }
  template <typename Element>
  HWY_INLINE void Put(size_t r, size_t n, Vector sum) const {
    hn::StoreU(sum, Floats(), data + r * step + n);
  }
};
// Where the sums of a product go that is complete: data[r * step + n] becomes out[r][n] * factor.
struct ScaledSums {
  static constexpr bool kAreLast = false;
  float* data;
  size_t step;
  float factor;

  ScaledSums From(size_t r, size_t n) const { return {data + r * step + n, step, factor}; }
  template <typename Element>
  HWY_INLINE void Put(size_t r, size_t n, Vector sum) const {
    hn::StoreU(hn::Mul(sum, hn::Set(Floats(), factor)), Floats(), data + r * step + n);
  }
};
// Where rows' sums go once they are complete: data[r * step + n] becomes out[r][n] * factors[r].
template <typename T>
struct Results {
  static constexpr bool kAreLast = true;
  T* data;
  size_t step;
  const float* factors;
  bool* are_finite;  // unless it is null, becomes false with any sum that is NaN or infinite

  Results From(size_t r, size_t n) const {
    return {data + r * step + n, step, factors + r, are_finite};
  }
  template <typename Element>
  HWY_INLINE void Put(size_t r, size_t n, Vector sum) const {
    const Vector result = hn::Mul(sum, hn::Set(Floats(), factors[r]));
    if constexpr (kAreDots<Element> && std::is_same_v<T, Eigen::bfloat16>) {
      NarrowWithDots(result, data + r * step + n);
    } else {
      Narrow(result, data + r * step + n);
    }
  }
  // These lines are not in the first cache, and arrive while the sums are computed.
  HWY_INLINE void Fetch(size_t r, size_t n) const { hwy::Prefetch(data + r * step + n); }
  HWY_INLINE void Watch(Vector products_with_zero) const {
    *are_finite =
        *are_finite && hn::AllTrue(Floats(), hn::Eq(products_with_zero, products_with_zero));
  }
};

// Not NaN where all are finite. A chain for each column, since each sum has to wait for the last.
template <size_t kR, size_t kV>
HWY_INLINE Vector SumOfProductsWithZero(const Vector (&sums)[kR][kV]) {
  const Vector zero = hn::Zero(Floats());
  Vector columns[kV];
#pragma GCC unroll 12
  for (size_t v = 0; v < kV; ++v) {
    columns[v] = hn::Mul(sums[0][v], zero);
#pragma GCC unroll 12
    for (size_t r = 1; r < kR; ++r) columns[v] = hn::MulAdd(sums[r][v], zero, columns[v]);
  }
#pragma GCC unroll 12
  for (size_t v = 1; v < kV; ++v) columns[0] = hn::Add(columns[0], columns[v]);
  return columns[0];
}

// kByRow: a.step is 1, else a.row_step is, so that one of them is a constant of the loop. What `out` holds
// and the products add up to goes to `target`: Sums, ScaledSums or Results.
template <size_t kR, size_t kV, bool kByRow, typename T, typename Target>
HWY_NOINLINE void AccumulateBlock(Factors a, Columns<T> b, Sums out, Target target, size_t count,
                                  bool is_fresh) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t row_step = kByRow ? a.row_step : 1;
  const size_t step = kByRow ? 1 : a.step;
  Vector sums[kR][kV];
  if constexpr (Target::kAreLast) {
#pragma GCC unroll 12
    for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 12
      for (size_t v = 0; v < kV; ++v) target.Fetch(r, v * lanes);
    }
  }
#pragma GCC unroll 12
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 12
    for (size_t v = 0; v < kV; ++v) {
      sums[r][v] = is_fresh ? hn::Zero(d) : hn::LoadU(d, out.data + r * out.step + v * lanes);
    }
  }
#pragma GCC unroll 4
  for (size_t c = 0; c < count; ++c) {
    Vector columns[kV];
#pragma GCC unroll 12
    for (size_t v = 0; v < kV; ++v) columns[v] = LoadColumn(b, c, v * lanes);
#pragma GCC unroll 12
    for (size_t r = 0; r < kR; ++r) {
      const Vector factor = LoadFactor(a.data + r * row_step + c * step);
#pragma GCC unroll 12
      for (size_t v = 0; v < kV; ++v) sums[r][v] = AddProduct<T>(factor, columns[v], sums[r][v]);
    }
  }
#pragma GCC unroll 12
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 12
    for (size_t v = 0; v < kV; ++v) target.template Put<T>(r, v * lanes, sums[r][v]);
  }
  if constexpr (Target::kAreLast) {
    if (target.are_finite != nullptr) target.Watch(SumOfProductsWithZero(sums));
  }
}

// Any number of rows: blocks of kR, and of 8, 4, 2 and 1 for the rest.
template <size_t kR, size_t kV, bool kByRow, typename T, typename Target>
void AccumulateRows(size_t rows, const Factors& a, const Columns<T>& b, const Sums& out,
                    const Target& target, size_t count, bool is_fresh) {
  size_t r = 0;
  const auto add = [&](auto height) HWY_ATTR {
    AccumulateBlock<height(), kV, kByRow>({a.data + r * a.row_step, a.row_step, a.step}, b,
                                          out.From(r, 0), target.From(r, 0), count, is_fresh);
    r += height();
  };
  while (rows - r >= kR) add(std::integral_constant<size_t, kR>());
  if constexpr (kR > 8) {
    if (rows - r >= 8) add(std::integral_constant<size_t, 8>());
  }
  if constexpr (kR > 4) {
    if (rows - r >= 4) add(std::integral_constant<size_t, 4>());
  }
  if (rows - r >= 2) add(std::integral_constant<size_t, 2>());
  if (rows - r >= 1) add(std::integral_constant<size_t, 1>());
}

// The whole of it: any number of rows and vectors, in blocks of kR rows and kV vectors and smaller ones for
// the rest. kByRow and target as above. is_fresh: out starts from 0 instead of what it holds.
template <size_t kR, size_t kV, bool kByRow, typename T, typename Target>
void AccumulateTo(const Target& target, size_t rows, size_t vectors, const Factors& a,
                  const Columns<T>& b, const Sums& out, size_t count, bool is_fresh) {
  const size_t lanes = hn::Lanes(Floats());
  size_t v = 0;
  const auto add = [&](auto width) HWY_ATTR {
    const Columns<T> columns{b.data + v * lanes, b.step};
    AccumulateRows<kR, width(), kByRow>(rows, a, columns, out.From(0, v * lanes),
                                        target.From(0, v * lanes), count, is_fresh);
    v += width();
  };
  while (vectors - v >= kV) add(std::integral_constant<size_t, kV>());
  if constexpr (kV > 4) {
    if (vectors - v >= 4) add(std::integral_constant<size_t, 4>());
  }
  if (vectors - v >= 2) add(std::integral_constant<size_t, 2>());
  if (vectors - v >= 1) add(std::integral_constant<size_t, 1>());
}

template <size_t kR, size_t kV, bool kByRow, typename T>
void Accumulate(size_t rows, size_t vectors, const Factors& a, const Columns<T>& b, const Sums& out,
                size_t count, bool is_fresh) {
  AccumulateTo<kR, kV, kByRow>(out, rows, vectors, a, b, out, count, is_fresh);
}

// Likewise for few rows, a.step being 1: one or two leave registers for more vectors, so that b is read
// in longer pieces.
template <typename T, typename Target>
void AccumulateFewTo(const Target& target, size_t rows, size_t vectors, const Factors& a,
                     const Columns<T>& b, const Sums& out, size_t count, bool is_fresh) {
  if (rows <= 2) {
    return AccumulateTo<2, kWide, true>(target, rows, vectors, a, b, out, count, is_fresh);
  }
  constexpr size_t kMost = std::min<size_t>(kTall, 8);
  AccumulateTo<kMost, kTallVectors, true>(target, rows, vectors, a, b, out, count, is_fresh);
}

template <typename T>
void AccumulateFew(size_t rows, size_t vectors, const Factors& a, const Columns<T>& b,
                   const Sums& out, size_t count, bool is_fresh) {
  AccumulateFewTo(out, rows, vectors, a, b, out, count, is_fresh);
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
