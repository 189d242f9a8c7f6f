// How a row begins and ends: its sink, its division by the sum of its weights, its lse. Per target,
// see micro_kernel-inl.h.
#if defined(ATTEST_TILED_FAST_OUTPUTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_OUTPUTS_INL_H_
#undef ATTEST_TILED_FAST_OUTPUTS_INL_H_
#else
#define ATTEST_TILED_FAST_OUTPUTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>

#include "impl/tiled/fast/block_rows.h"
#include "impl/tiled/fast/rows-inl.h"
#include "impl/tiled/fast/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

// Row n of the sums has seen its sink and no key. The call has sinks.
inline void StartWithSink(const FastCall& fast, const BlockRow& row, const RowSums& sums,
                          size_t n) {
  const auto sink = static_cast<float>((*fast.call.sinks)[static_cast<size_t>(row.head)]);
  sums.max[n] = sink * kLog2E;
  sums.weight[n] = sink == kMinusInfinity ? 0 : 1;
}

// What the rows' sums are multiplied by; 0 for rows that have seen nothing.
HWY_INLINE Vector ReciprocalOf(const RowSums& sums, size_t n) {
  const Floats d;
  const Vector weight = hn::LoadU(d, sums.weight + n);
  return hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), hn::Div(hn::Set(d, 1.0F), weight));
}

// Rows first .. last of the block, whose sums begin at 0 of `sums` and
// `values`: out.
template <typename T>
void WriteOutsAs(const CallView& call, const BlockRows& rows, int64_t first, int64_t last,
                 const RowSums& sums, const Sums& values) {
  if (call.value_dim == 0) return;
  const Floats d;
  const int64_t size = call.value_dim, step = call.out.strides[2];
  HWY_ALIGN float reciprocals[kLanes] = {};
  RowSpan<T> out;
  for (int64_t r = first; r < last; ++r) {
    const auto n = static_cast<size_t>(r - first), lane = n % hn::Lanes(d);
    if (lane == 0) hn::Store(ReciprocalOf(sums, n), d, reciprocals);
    if (r == first || rows.StartsHead(r)) {
      out = call.OutAt<T>(rows.block().batch, rows[r].head, rows[r].i);
    } else {
      out.data += step;
    }
    StoreRow<T>(values.data + n * values.step, reciprocals[lane], size, out);
  }
}

inline void WriteOuts(const CallView& call, const BlockRows& rows, int64_t first, int64_t last,
                      const RowSums& sums, const Sums& values) {
  WithStorage(call.dtype, [&](auto zero) {
    WriteOutsAs<decltype(zero)>(call, rows, first, last, sums, values);
  });
}

// Likewise lse: -infinity where a row has seen nothing. The call wants it.
inline void WriteLses(const CallView& call, const BlockRows& rows, int64_t first, int64_t last,
                      const RowSums& sums) {
  for (int64_t r = first; r < last; ++r) {
    const float weight = sums.weight[r - first];
    call.LseAt<float>(rows.block().batch, rows[r].head, rows[r].i) =
        weight == 0 ? kMinusInfinity : sums.max[r - first] * kLn2 + std::log(weight);
  }
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
