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

#include "impl/abi/call_view.h"
#include "impl/abi/input_rows.h"
#include "impl/tiled/fast/micro_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void LoadRow(const RowSpan<const T>& row, int64_t size, float* out) {
  int64_t n = 0;
  if constexpr (kInVectors<T>) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
    for (; row.stride == 1 && n + lanes <= size; n += lanes) {
      hn::StoreU(Widen(row.data + n), Floats(), out + n);
    }
  }
  for (; n < size; ++n) out[n] = static_cast<float>(row[n]);
}

// Row n of `count` rows from `data` on, `step` apart, goes to out + n * out_step.
template <typename T>
HWY_NOINLINE void LoadRows(const T* data, int64_t step, int64_t count, int64_t size, float* out,
                           int64_t out_step) {
  for (int64_t n = 0; n < count; ++n) {
    LoadRow<T>({data + n * step, 1}, size, out + n * out_step);
  }
}

// `row` is a copy: a reference might be to what is written, and be read again for each vector.
template <typename T>
HWY_INLINE void StoreRow(const float* in, float factor, int64_t size, RowSpan<T> row) {
  int64_t n = 0;
  if constexpr (kInVectors<T>) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
    const int64_t vectors_end = row.stride == 1 ? size - lanes : -1;
    for (; n <= vectors_end; n += lanes) {
      Narrow(hn::Mul(hn::LoadU(Floats(), in + n), hn::Set(Floats(), factor)), row.data + n);
    }
  }
  for (; n < size; ++n) row[n] = static_cast<T>(in[n] * factor);
}

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

// 16 bytes of each of the rows 0, 4, 8, ... of `rows`, from column c on, in blocks.
template <typename T>
HWY_INLINE Vector LoadBlocks(const T* const* rows, size_t c) {
  const Floats d;
  const auto load = [&](size_t n) HWY_ATTR {
    return hn::LoadDup128(d, reinterpret_cast<const float*>(rows[4 * n] + c));
  };
  const auto block = hn::ShiftRight<2>(hn::Iota(hn::RebindToSigned<Floats>(), 0));
  Vector all = load(0);
#pragma GCC unroll 4
  for (size_t n = 1; n < kLanes / 4; ++n) {
    const auto number = hn::Set(hn::RebindToSigned<Floats>(), static_cast<int32_t>(n));
    const auto is_here = hn::RebindMask(d, hn::Eq(block, number));
    all = hn::IfThenElse(is_here, load(n), all);
  }
  return all;
}

// Stores the floats of a vector of columns: of 16 bits two columns lie in each lane.
template <typename T>
HWY_INLINE void StoreColumns(Vector x, Vector factor, float* out, size_t out_step) {
  const Floats d;
  if constexpr (std::is_same_v<T, Pair>) {
    hn::StoreU(x, d, out);
  } else if constexpr (sizeof(T) == sizeof(float)) {
    hn::StoreU(hn::Mul(x, factor), d, out);
  } else {
    hn::StoreU(hn::Mul(FirstOfPairs(x, T()), factor), d, out);
    hn::StoreU(hn::Mul(SecondOfPairs(x, T()), factor), d, out + out_step);
  }
}

constexpr size_t kBlocks = kLanes / 4;

// x[b] becomes the blocks b of all kBlocks vectors, in their order.
HWY_INLINE void GatherBlocks(Vector* x) {
  const Floats d;
  if constexpr (kBlocks == 2) {
    const Vector first = hn::ConcatLowerLower(d, x[1], x[0]);
    x[1] = hn::ConcatUpperUpper(d, x[1], x[0]);
    x[0] = first;
  } else if constexpr (kBlocks == 4) {
    const auto gather = [&](Vector even, Vector odd, Vector& first, Vector& second) HWY_ATTR {
      first = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd), even);
      second = hn::OddEvenBlocks(odd, hn::SwapAdjacentBlocks(even));
    };
    const Vector even = hn::ConcatUpperUpper(d, x[2], x[0]);
    const Vector odd = hn::ConcatUpperUpper(d, x[3], x[1]);
    gather(hn::ConcatLowerLower(d, x[2], x[0]), hn::ConcatLowerLower(d, x[3], x[1]), x[0], x[1]);
    gather(even, odd, x[2], x[3]);
  }
}

// A vector of lanes of each row, from column c on, to out.
template <typename T>
HWY_INLINE void TransposeVectors(const T* const* rows, size_t c, Vector factor, float* out,
                                 size_t out_step) {
  constexpr size_t kPerLane = sizeof(float) / sizeof(T);
  Vector x[kLanes];
#pragma GCC unroll 16
  for (size_t n = 0; n < kLanes; ++n) {
    x[n] = hn::LoadU(Floats(), reinterpret_cast<const float*>(rows[n] + c));
  }
#pragma GCC unroll 4
  for (size_t n = 0; n < kLanes; n += 4) TransposeBlocks(x[n], x[n + 1], x[n + 2], x[n + 3]);
#pragma GCC unroll 4
  for (size_t k = 0; k < 4; ++k) {
    Vector columns[kBlocks];
#pragma GCC unroll 4
    for (size_t b = 0; b < kBlocks; ++b) columns[b] = x[4 * b + k];
    GatherBlocks(columns);
#pragma GCC unroll 4
    for (size_t b = 0; b < kBlocks; ++b) {
      StoreColumns<T>(columns[b], factor, out + (4 * b + k) * kPerLane * out_step, out_step);
    }
  }
}
#endif

// Fetches rows of `columns` elements, `offset` elements behind each of `rows`, in the order of addresses,
// as hardware expects it. None where `offset` is 0.
template <typename T>
class RowFetcher {
 public:
  RowFetcher(const T* const* rows, size_t columns, size_t offset)
      : rows_(rows),
        offset_(offset),
        end_(offset + columns),
        row_(offset == 0 ? kLanes : 0),
        next_(offset) {}

  // The next 16 bytes for each row.
  HWY_INLINE void Fetch() {
    constexpr size_t kLine = 64 / sizeof(T);
    if (row_ == kLanes) return;
#pragma GCC unroll 4
    for (size_t n = 0; n < kLanes; n += 4) hwy::Prefetch(rows_[row_] + next_ + n / 4 * kLine);
    next_ += kLanes * 16 / sizeof(T);
    if (next_ < end_) return;
    next_ = offset_;
    ++row_;
  }

 private:
  const T* const* rows_;
  const size_t offset_, end_;
  size_t row_, next_;
};

// An element times the factor; of pairs, their bits.
template <typename T>
HWY_INLINE void StoreElement(const T& element, float factor, float* out) {
  if constexpr (std::is_same_v<T, Pair>) {
    std::memcpy(out, &element, sizeof element);
  } else {
    *out = static_cast<float>(element) * factor;
  }
}

// out[c * out_step + n] = rows[n][c] * factor, or the pair rows[n][c], for one vector of rows and c < columns. Meanwhile the rows
// that lie `ahead` elements behind these are fetched, unless it is 0.
template <typename T>
HWY_NOINLINE void Transpose(const T* const* rows, size_t columns, float factor, float* out,
                            size_t out_step, [[maybe_unused]] size_t ahead) {
  size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kInVectors<T>) {
    constexpr size_t kPerLane = sizeof(float) / sizeof(T);
    const Vector by = hn::Set(Floats(), factor);
    RowFetcher<T> fetcher(rows, columns, ahead);
    for (; c + kLanes * kPerLane <= columns; c += kLanes * kPerLane) {
#pragma GCC unroll 4
      for (size_t b = 0; b < kBlocks; ++b) fetcher.Fetch();
      TransposeVectors(rows, c, by, out + c * out_step, out_step);
    }
    for (; c + 4 * kPerLane <= columns; c += 4 * kPerLane) {
      fetcher.Fetch();
      Vector x[4];
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; ++k) x[k] = LoadBlocks(rows + k, c);
      TransposeBlocks(x[0], x[1], x[2], x[3]);
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; ++k) {
        StoreColumns<T>(x[k], by, out + (c + k * kPerLane) * out_step, out_step);
      }
    }
  }
#endif
  for (; c < columns; ++c) {
    for (size_t n = 0; n < kLanes; ++n) {
      StoreElement(rows[n][c], factor, out + c * out_step + n);
    }
  }
}

// Likewise rows of bf16, in pairs of columns; the last is with 0 if it is alone.
inline void TransposePairs(const Eigen::bfloat16* const* rows, size_t columns, float* out,
                           size_t out_step, size_t ahead) {
  const Pair* pairs[kLanes];
  for (size_t n = 0; n < kLanes; ++n) pairs[n] = reinterpret_cast<const Pair*>(rows[n]);
  Transpose(pairs, columns / 2, 1, out, out_step, ahead / 2);
  for (size_t n = 0; n < kLanes && columns % 2 == 1; ++n) {
    StoreElement(Pair{BitsOf(rows[n][columns - 1]), 0}, 1, out + columns / 2 * out_step + n);
  }
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
