// The product that both halves of attention are made of, in vector registers. Per target: included
// by block_kernel.cc through Highway's foreach_target.
//
//   out[r][n] += sum over c of a[r][c] * b[c][n]      r < rows, n < vectors * lanes
//
// b and out have their n contiguous, a is read element by element, so that keys and values need not
// be packed. Each out[r][n] is one chain of fused multiply-adds in ascending c, whatever the sizes:
// its bits do not depend on where in a block it stands.
#if defined(ATTEST_TILED_FAST_MICRO_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_MICRO_KERNEL_INL_H_
#undef ATTEST_TILED_FAST_MICRO_KERNEL_INL_H_
#else
#define ATTEST_TILED_FAST_MICRO_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

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
// out[r][n] = data[r * step + n].
struct Sums {
  float* data;
  size_t step;
};

// kByRow: a.step is 1, else a.row_step is, so that one of them is a constant of the loop.
template <size_t kR, size_t kV, bool kByRow, typename T>
HWY_NOINLINE void AccumulateBlock(Factors a, Columns<T> b, Sums out, size_t count, bool is_fresh) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t row_step = kByRow ? a.row_step : 1;
  const size_t step = kByRow ? 1 : a.step;
  Vector sums[kR][kV];
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
    for (size_t v = 0; v < kV; ++v) columns[v] = Widen(b.data + c * b.step + v * lanes);
#pragma GCC unroll 12
    for (size_t r = 0; r < kR; ++r) {
      const Vector factor = hn::Set(d, a.data[r * row_step + c * step]);
#pragma GCC unroll 12
      for (size_t v = 0; v < kV; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
#pragma GCC unroll 12
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 12
    for (size_t v = 0; v < kV; ++v) hn::StoreU(sums[r][v], d, out.data + r * out.step + v * lanes);
  }
}

// Any number of rows: blocks of kR, and of 8, 4, 2 and 1 for the rest.
template <size_t kR, size_t kV, bool kByRow, typename T>
void AccumulateRows(size_t rows, const Factors& a, const Columns<T>& b, const Sums& out,
                    size_t count, bool is_fresh) {
  size_t r = 0;
  const auto add = [&](auto height) HWY_ATTR {
    AccumulateBlock<height(), kV, kByRow>({a.data + r * a.row_step, a.row_step, a.step}, b,
                                          {out.data + r * out.step, out.step}, count, is_fresh);
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
// the rest. kByRow as above. is_fresh: out starts from 0 instead of what it holds.
template <size_t kR, size_t kV, bool kByRow, typename T>
void Accumulate(size_t rows, size_t vectors, const Factors& a, const Columns<T>& b, const Sums& out,
                size_t count, bool is_fresh) {
  const size_t lanes = hn::Lanes(Floats());
  size_t v = 0;
  const auto add = [&](auto width) HWY_ATTR {
    const Columns<T> columns{b.data + v * lanes, b.step};
    const Sums sums{out.data + v * lanes, out.step};
    AccumulateRows<kR, width(), kByRow>(rows, a, columns, sums, count, is_fresh);
    v += width();
  };
  while (vectors - v >= kV) add(std::integral_constant<size_t, kV>());
  if constexpr (kV > 4) {
    if (vectors - v >= 4) add(std::integral_constant<size_t, 4>());
  }
  if (vectors - v >= 2) add(std::integral_constant<size_t, 2>());
  if (vectors - v >= 1) add(std::integral_constant<size_t, 1>());
}

// Likewise for few rows, a.step being 1: one or two leave registers for more vectors, so that b is read
// in longer pieces.
template <typename T>
void AccumulateFew(size_t rows, size_t vectors, const Factors& a, const Columns<T>& b,
                   const Sums& out, size_t count, bool is_fresh) {
  if (rows <= 2) return Accumulate<2, kWide, true>(rows, vectors, a, b, out, count, is_fresh);
  constexpr size_t kMost = std::min<size_t>(kTall, 8);
  Accumulate<kMost, kTallVectors, true>(rows, vectors, a, b, out, count, is_fresh);
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
