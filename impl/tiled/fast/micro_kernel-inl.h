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

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

// What registers hold: kRows x kVectors accumulators, kVectors of b and one of a. Of one or two rows
// kWide vectors are added up at a time.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
constexpr size_t kRows = 6, kVectors = 2, kWide = 4;  // of 16
#else
constexpr size_t kRows = 8, kVectors = 3, kWide = 8;  // of 32
#endif

// Where the elements of a lie: a[r][c] = data[r * row_step + c * step].
struct Factors {
  const float* data;
  size_t row_step, step;
};
// b[c][n] = data[c * step + n].
struct Columns {
  const float* data;
  size_t step;
};
// out[r][n] = data[r * step + n].
struct Sums {
  float* data;
  size_t step;
};

// kByRow: a.step is 1, else a.row_step is, so that one of them is a constant of the loop.
template <size_t kR, size_t kV, bool kByRow>
HWY_NOINLINE void AccumulateBlock(Factors a, Columns b, Sums out, size_t count, bool is_fresh) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t row_step = kByRow ? a.row_step : 1;
  const size_t step = kByRow ? 1 : a.step;
  Vector sums[kR][kV];
#pragma GCC unroll 8
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kV; ++v) {
      sums[r][v] = is_fresh ? hn::Zero(d) : hn::LoadU(d, out.data + r * out.step + v * lanes);
    }
  }
#pragma GCC unroll 4
  for (size_t c = 0; c < count; ++c) {
    Vector columns[kV];
#pragma GCC unroll 8
    for (size_t v = 0; v < kV; ++v) columns[v] = hn::LoadU(d, b.data + c * b.step + v * lanes);
#pragma GCC unroll 8
    for (size_t r = 0; r < kR; ++r) {
      const Vector factor = hn::Set(d, a.data[r * row_step + c * step]);
#pragma GCC unroll 8
      for (size_t v = 0; v < kV; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kV; ++v) hn::StoreU(sums[r][v], d, out.data + r * out.step + v * lanes);
  }
}

template <size_t kV, bool kByRow>
void AccumulateRows(size_t rows, const Factors& a, const Columns& b, const Sums& out, size_t count,
                    bool is_fresh) {
  switch (rows) {
    case 1:
      return AccumulateBlock<1, kV, kByRow>(a, b, out, count, is_fresh);
    case 2:
      return AccumulateBlock<2, kV, kByRow>(a, b, out, count, is_fresh);
    case 3:
      return AccumulateBlock<3, kV, kByRow>(a, b, out, count, is_fresh);
    case 4:
      return AccumulateBlock<4, kV, kByRow>(a, b, out, count, is_fresh);
    case 5:
      return AccumulateBlock<5, kV, kByRow>(a, b, out, count, is_fresh);
    case 6:
      return AccumulateBlock<6, kV, kByRow>(a, b, out, count, is_fresh);
    case 7:
      return AccumulateBlock<std::min<size_t>(7, kRows), kV, kByRow>(a, b, out, count, is_fresh);
    default:
      return AccumulateBlock<kRows, kV, kByRow>(a, b, out, count, is_fresh);
  }
}

template <bool kByRow>
void AccumulateVectors(size_t rows, size_t vectors, const Factors& a, const Columns& b,
                       const Sums& out, size_t count, bool is_fresh) {
  switch (vectors) {
    case 1:
      return AccumulateRows<1, kByRow>(rows, a, b, out, count, is_fresh);
    case 2:
      return AccumulateRows<2, kByRow>(rows, a, b, out, count, is_fresh);
    default:
      return AccumulateRows<kVectors, kByRow>(rows, a, b, out, count, is_fresh);
  }
}

// A piece of Accumulate that one block can do.
inline void AccumulatePiece(size_t rows, size_t vectors, const Factors& a, const Columns& b,
                            const Sums& out, size_t count, bool is_fresh) {
  if (vectors == kWide && rows == 1) {
    AccumulateBlock<1, kWide, true>(a, b, out, count, is_fresh);
  } else if (vectors == kWide) {
    AccumulateBlock<2, kWide, true>(a, b, out, count, is_fresh);
  } else if (a.step == 1) {
    AccumulateVectors<true>(rows, vectors, a, b, out, count, is_fresh);
  } else {
    AccumulateVectors<false>(rows, vectors, a, b, out, count, is_fresh);
  }
}

// The whole of it: any number of rows and vectors, one of a.step and a.row_step 1. is_fresh: out
// starts from 0 instead of what it holds. One or two rows leave registers for twice as many vectors,
// and so have b read in longer pieces.
inline void Accumulate(size_t rows, size_t vectors, const Factors& a, const Columns& b,
                       const Sums& out, size_t count, bool is_fresh) {
  const size_t lanes = hn::Lanes(Floats());
  for (size_t v = 0; v < vectors;) {
    const bool is_wide = a.step == 1 && rows <= 2 && vectors - v >= kWide;
    const size_t n = is_wide ? kWide : std::min(kVectors, vectors - v);
    for (size_t r = 0; r < rows; r += kRows) {
      AccumulatePiece(std::min(kRows, rows - r), n, {a.data + r * a.row_step, a.row_step, a.step},
                      {b.data + v * lanes, b.step}, {out.data + r * out.step + v * lanes, out.step},
                      count, is_fresh);
    }
    v += n;
  }
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
