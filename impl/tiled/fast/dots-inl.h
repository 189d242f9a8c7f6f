// Dot products of pairs of bf16, which some machines add to a float in one instruction. Per target, see
// micro_kernel-inl.h.
//
// Lanes are pairs: of consecutive components of queries and keys, of the weights, or the values, of
// consecutive keys. Products are exact, and each of the two additions rounds, as a fused multiply-add does; but
// subnormals count as 0, and weights are rounded to bf16. A kernel's contract says both of itself:
// `flush_to_zero`, and `probability`, which is bf16 for bf16 where it says nothing.
#if defined(ATTEST_TILED_FAST_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_DOTS_INL_H_
#undef ATTEST_TILED_FAST_DOTS_INL_H_
#else
#define ATTEST_TILED_FAST_DOTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "impl/abi/call_view.h"
#include "impl/tiled/fast/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

// Two elements of bf16 side by side, one lane.
struct Pair {
  uint16_t first, second;
};
// The first of a row of bf16; a lane is its element with that one row further.
struct TwoRows {
  uint16_t first;
};
template <typename T>
constexpr bool kAreDots = std::is_same_v<T, Pair> || std::is_same_v<T, TwoRows>;

constexpr size_t HalfUp(size_t n) {
  return (n + 1) / 2;
}

HWY_INLINE Vector JoinPairs(Vector first, Vector second) {
  const hn::RebindToUnsigned<Floats> bits;
  return hn::BitCast(Floats(), hn::Or(hn::BitCast(bits, first), hn::BitCast(bits, second)));
}

// Highway 1.0.3 has no target with these instructions: so they are asked for by name.
#if HWY_TARGET == HWY_AVX3
constexpr bool kHasDots = true;
inline bool MachineHasDots() {
  return __builtin_cpu_supports("avx512bf16");
}

HWY_INLINE Vector AddDots(Vector a, Vector b, Vector sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}

// Floats rounded to nearest, in pairs.
HWY_INLINE Vector PairsOf(Vector first, Vector second) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i both;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(second.raw), "v"(first.raw));
  return Vector{_mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both))};
}

// As Narrow does, in one instruction where a machine has dots. It would turn subnormals to 0.
HWY_INLINE void NarrowWithDots(Vector x, Eigen::bfloat16* out) {
  constexpr int kSubnormal = 0x20;
  if (_mm512_fpclass_ps_mask(x.raw, kSubnormal) != 0) return Narrow(x, out);
  __m256i narrow;
  asm("vcvtneps2bf16 %1, %0" : "=v"(narrow) : "v"(x.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), narrow);
}
#else
constexpr bool kHasDots = false;
inline bool MachineHasDots() {
  return false;
}

// Never called.
HWY_INLINE Vector AddDots(Vector, Vector, Vector sum) {
  return sum;
}
HWY_INLINE Vector PairsOf(Vector first, Vector) {
  return first;
}
HWY_INLINE void NarrowWithDots(Vector x, Eigen::bfloat16* out) {
  Narrow(x, out);
}
#endif

// 8-bit values are multiplied as floats, whatever else is in the call.
inline bool UsesDots(const CallView& call) {
  return kHasDots && call.dtype == DType::kBF16 && !call.fp8 && MachineHasDots();
}

// A vector of elements of bf16, as the first, or the second, of pairs.
HWY_INLINE Vector LoadFirst(const uint16_t* in) {
  const hn::Rebind<uint16_t, Floats> narrow;
  return hn::BitCast(Floats(),
                     hn::PromoteTo(hn::RebindToUnsigned<Floats>(), hn::LoadU(narrow, in)));
}
HWY_INLINE Vector LoadSecond(const uint16_t* in) {
  const hn::RebindToUnsigned<Floats> bits;
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::BitCast(bits, LoadFirst(in))));
}

using Bf16Row = RowSpan<const Eigen::bfloat16>;

inline uint16_t BitsOf(Eigen::bfloat16 x) {
  uint16_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// A row's elements in pairs, the last with 0 if it is alone, to HalfUp(size) floats of `out`.
inline void PackRow(const Bf16Row& row, size_t size, float* out) {
  const size_t lanes = hn::Lanes(Floats());
  size_t n = 0;
  for (; row.stride == 1 && n + 2 * lanes <= size; n += 2 * lanes) {
    const auto* const in = reinterpret_cast<const float*>(row.data + n);
    hn::StoreU(hn::LoadU(Floats(), in), Floats(), out + n / 2);
  }
  for (; n < size; n += 2) {
    const Pair pair{BitsOf(row[static_cast<int64_t>(n)]),
                    n + 1 < size ? BitsOf(row[static_cast<int64_t>(n + 1)]) : uint16_t{0}};
    std::memcpy(out + n / 2, &pair, sizeof pair);
  }
}

// Two rows' elements in pairs. What of them is not there, null, is 0.
inline void PackRows(const Bf16Row* first, const Bf16Row* second, size_t size, float* out) {
  const size_t lanes = hn::Lanes(Floats());
  const auto in_vectors = [](const Bf16Row* row) { return row == nullptr || row->stride == 1; };
  const auto data = [](const Bf16Row* row) { return reinterpret_cast<const uint16_t*>(row->data); };
  size_t n = 0;
  for (; in_vectors(first) && in_vectors(second) && n + lanes <= size; n += lanes) {
    const Vector zero = hn::Zero(Floats());
    hn::StoreU(JoinPairs(first == nullptr ? zero : LoadFirst(data(first) + n),
                         second == nullptr ? zero : LoadSecond(data(second) + n)),
               Floats(), out + n);
  }
  for (; n < size; ++n) {
    const auto at = static_cast<int64_t>(n);
    const Pair pair{first == nullptr ? uint16_t{0} : BitsOf((*first)[at]),
                    second == nullptr ? uint16_t{0} : BitsOf((*second)[at])};
    std::memcpy(out + n, &pair, sizeof pair);
  }
}

// Likewise, of rows that are there and are whole vectors.
HWY_INLINE void InterleaveRows(const Eigen::bfloat16* first, const Eigen::bfloat16* second,
                               size_t size, float* out) {
  const auto* const firsts = reinterpret_cast<const uint16_t*>(first);
  const auto* const seconds = reinterpret_cast<const uint16_t*>(second);
  for (size_t n = 0; n < size; n += hn::Lanes(Floats())) {
    hn::StoreU(JoinPairs(LoadFirst(firsts + n), LoadSecond(seconds + n)), Floats(), out + n);
  }
}

// Whether an element of bf16 is neither NaN nor infinite.
constexpr bool IsFinite(uint16_t bits) {
  return (bits & 0x7F80) != 0x7F80;
}

// Elements that are not finite become 0. Returns whether there were none.
inline bool ClearOthers(float* pairs, size_t size) {
  bool are_finite = true;
  for (size_t n = 0; n < size; ++n) {
    Pair pair;
    std::memcpy(&pair, pairs + n, sizeof pair);
    if (IsFinite(pair.first) && IsFinite(pair.second)) continue;
    are_finite = false;
    if (!IsFinite(pair.first)) pair.first = 0;
    if (!IsFinite(pair.second)) pair.second = 0;
    std::memcpy(pairs + n, &pair, sizeof pair);
  }
  return are_finite;
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
