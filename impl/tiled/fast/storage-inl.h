// Vectors of floats, and how elements of a call become such and come back. Per target, see
// micro_kernel-inl.h.
#if defined(ATTEST_TILED_FAST_STORAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_STORAGE_INL_H_
#undef ATTEST_TILED_FAST_STORAGE_INL_H_
#else
#define ATTEST_TILED_FAST_STORAGE_INL_H_
#endif

#include <hwy/highway.h>

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr size_t kLanes = hn::MaxLanes(Floats());

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

// Lanes that hold two elements of 16 bits each: the first of each pair, and the second.
HWY_INLINE Vector FirstOfPairs(Vector pairs, Eigen::bfloat16) {
  const hn::RebindToUnsigned<Floats> bits;
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::BitCast(bits, pairs)));
}

HWY_INLINE Vector SecondOfPairs(Vector pairs, Eigen::bfloat16) {
  const hn::RebindToUnsigned<Floats> bits;
  return hn::BitCast(Floats(), hn::And(hn::BitCast(bits, pairs), hn::Set(bits, 0xFFFF0000)));
}

// `low` has the 16 bits of an f16 in each lane.
template <typename V>
HWY_INLINE Vector WidenHalves(V low) {
  const hn::RebindToSigned<Floats> integers;
  const hn::Rebind<uint16_t, Floats> narrow;
  const hn::Rebind<hwy::float16_t, Floats> halves;
  const auto bits = hn::DemoteTo(narrow, hn::BitCast(integers, low));
  return hn::PromoteTo(Floats(), hn::BitCast(halves, bits));
}

HWY_INLINE Vector FirstOfPairs(Vector pairs, Eigen::half) {
  const hn::RebindToUnsigned<Floats> bits;
  return WidenHalves(hn::And(hn::BitCast(bits, pairs), hn::Set(bits, 0xFFFF)));
}

HWY_INLINE Vector SecondOfPairs(Vector pairs, Eigen::half) {
  const hn::RebindToUnsigned<Floats> bits;
  return WidenHalves(hn::ShiftRight<16>(hn::BitCast(bits, pairs)));
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
