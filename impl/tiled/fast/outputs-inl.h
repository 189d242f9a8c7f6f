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

// The row of out, where floats side by side can be written to it; else null.
inline float* OutInPlace(const CallView& call, const Block& block, const BlockRow& row) {
  if (call.dtype != DType::kF32) return nullptr;
  const RowSpan<float> out = call.OutAt<float>(block.batch, row.head, row.i);
  return out.stride == 1 ? out.data : nullptr;
}

inline void WriteOut(const CallView& call, const Block& block, const BlockRow& row,
                     const float* out) {
  WithStorage(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    StoreRow<T>(out, call.value_dim, call.OutAt<T>(block.batch, row.head, row.i));
  });
}

// From row n of the sums: -infinity where that has seen nothing. The call wants lse.
inline void WriteLse(const CallView& call, const Block& block, const BlockRow& row,
                     const RowSums& sums, size_t n) {
  const float weight = sums.weight[n];
  call.LseAt<float>(block.batch, row.head, row.i) =
      weight == 0 ? kMinusInfinity : sums.max[n] * kLn2 + std::log(weight);
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
