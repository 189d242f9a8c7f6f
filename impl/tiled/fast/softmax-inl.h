// The online softmax, its rows side by side in vectors. Per target, see micro_kernel-inl.h.
//
// Scores are times log2 e, so a weight is 2^(score - maximum). Where all has been hidden so far the
// maximum is -infinity; 0 is subtracted then, and weights are 0.
#if defined(ATTEST_TILED_FAST_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_SOFTMAX_INL_H_
#undef ATTEST_TILED_FAST_SOFTMAX_INL_H_
#else
#define ATTEST_TILED_FAST_SOFTMAX_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "impl/tiled/fast/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// What is subtracted from scores.
HWY_INLINE Vector ShiftOf(Vector max) {
  const Floats d;
  return hn::IfThenZeroElse(hn::Eq(max, hn::Set(d, kMinusInfinity)), max);
}

// max[v] becomes at least every score of vector v: scores[n * step + v * lanes], n < keys.
template <size_t kV>
HWY_INLINE void RaiseMaximum(const float* scores, size_t step, size_t keys, Vector* max) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  Vector largest[kV];
#pragma GCC unroll 8
  for (size_t v = 0; v < kV; ++v) largest[v] = max[v];
  for (size_t n = 0; n < keys; ++n) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kV; ++v) {
      largest[v] = hn::Max(largest[v], hn::LoadU(d, scores + n * step + v * lanes));
    }
  }
#pragma GCC unroll 8
  for (size_t v = 0; v < kV; ++v) max[v] = largest[v];
}

// Turns scores into weights, and adds them to sums[v] in the order of keys.
template <size_t kV>
HWY_INLINE void Exponentiate(float* scores, size_t step, size_t keys, const Vector* shift,
                             Vector* sums) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  Vector sum[kV];
#pragma GCC unroll 8
  for (size_t v = 0; v < kV; ++v) sum[v] = sums[v];
  for (size_t n = 0; n < keys; ++n) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kV; ++v) {
      float* const score = scores + n * step + v * lanes;
      const Vector weight = Exp2(hn::Sub(hn::LoadU(d, score), shift[v]));
      hn::StoreU(weight, d, score);
      sum[v] = hn::Add(sum[v], weight);
    }
  }
#pragma GCC unroll 8
  for (size_t v = 0; v < kV; ++v) sums[v] = sum[v];
}

// Likewise, and puts the weights of keys 2 n and 2 n + 1, rounded, in pairs[n * step + v * lanes]; a last one
// alone is with 0.
template <size_t kV>
HWY_INLINE void ExponentiatePairs(float* scores, size_t step, size_t keys, const Vector* shift,
                                  Vector* sums, float* pairs) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  Vector sum[kV];
#pragma GCC unroll 8
  for (size_t v = 0; v < kV; ++v) sum[v] = sums[v];
  for (size_t n = 0; n < keys; n += 2) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kV; ++v) {
      float* const score = scores + n * step + v * lanes;
      const Vector first = Exp2(hn::Sub(hn::LoadU(d, score), shift[v]));
      hn::StoreU(first, d, score);
      sum[v] = hn::Add(sum[v], first);
      Vector second = hn::Zero(d);
      if (n + 1 < keys) {
        second = Exp2(hn::Sub(hn::LoadU(d, score + step), shift[v]));
        hn::StoreU(second, d, score + step);
        sum[v] = hn::Add(sum[v], second);
      }
      hn::StoreU(PairsOf(first, second), d, pairs + n / 2 * step + v * lanes);
    }
  }
#pragma GCC unroll 8
  for (size_t v = 0; v < kV; ++v) sums[v] = sum[v];
}

// The sums of some rows so far, two floats a row; what else is summed belongs to the caller.
struct RowSums {
  float* max;
  float* weight;
};

// Both merged into `total`, a vector of rows at `n`. What each side's other sums are to be multiplied by
// is returned.
struct MergeFactors {
  Vector total, part;
};
HWY_INLINE MergeFactors MergeRows(const RowSums& total, const RowSums& part, size_t n) {
  const Floats d;
  const Vector old = hn::LoadU(d, total.max + n), other = hn::LoadU(d, part.max + n);
  const Vector max = hn::Max(old, other);
  const Vector shift = ShiftOf(max);
  const MergeFactors factors{Exp2(hn::Sub(old, shift)), Exp2(hn::Sub(other, shift))};
  hn::StoreU(max, d, total.max + n);
  const Vector weight = hn::Mul(hn::LoadU(d, part.weight + n), factors.part);
  hn::StoreU(hn::MulAdd(hn::LoadU(d, total.weight + n), factors.total, weight), d,
             total.weight + n);
  return factors;
}

// target[n] = target[n] * a + source[n] * b for n < size, a multiple of the lanes.
HWY_INLINE void ScaleAndAdd(float* target, Vector a, const float* source, Vector b, size_t size) {
  const Floats d;
  for (size_t n = 0; n < size; n += hn::Lanes(d)) {
    const Vector added = hn::Mul(hn::LoadU(d, source + n), b);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, target + n), a, added), d, target + n);
  }
}

// target[n * step] *= factor for n < rows, a vector each.
HWY_INLINE void Scale(float* target, size_t step, size_t rows, Vector factor) {
  const Floats d;
  for (size_t n = 0; n < rows; ++n) {
    hn::StoreU(hn::Mul(hn::LoadU(d, target + n * step), factor), d, target + n * step);
  }
}

HWY_INLINE bool IsOne(Vector factor) {
  const Floats d;
  return hn::AllTrue(d, hn::Eq(factor, hn::Set(d, 1.0F)));
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
