// 2^x and tanh in vectors: what softmax and softcap are made of. Per target, see micro_kernel-inl.h.
// Each lane's bits depend on that lane alone.
#if defined(ATTEST_TILED_FAST_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_TILED_FAST_EXP2_INL_H_
#undef ATTEST_TILED_FAST_EXP2_INL_H_
#else
#define ATTEST_TILED_FAST_EXP2_INL_H_
#endif

#include <hwy/highway.h>

#include "impl/tiled/fast/micro_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

// 2^f for |f| <= 0.5: a polynomial, minimax with the constant term held at 1.
HWY_INLINE Vector Exp2OfFraction(Vector f) {
  const Floats d;
  Vector p = hn::Set(d, kExp2Coefficients[4]);
  p = hn::MulAdd(p, f, hn::Set(d, kExp2Coefficients[3]));
  p = hn::MulAdd(p, f, hn::Set(d, kExp2Coefficients[2]));
  p = hn::MulAdd(p, f, hn::Set(d, kExp2Coefficients[1]));
  p = hn::MulAdd(p, f, hn::Set(d, kExp2Coefficients[0]));
  return hn::MulAdd(p, f, hn::Set(d, 1.0F));
}

// 2^x for x <= 127, within 2 ulp; 1 at 0. Below -126, and so below the least normal, it is 0. NaN stays.
// x = n + f with n a nearest integer.
#if HWY_TARGET == HWY_AVX3
// In fewer instructions: AVX-512 has one that rounds and one that multiplies by 2^n.
HWY_INLINE Vector Exp2(Vector x) {
  const __mmask16 is_normal = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126.0F), _CMP_NLT_UQ);
  const __m512 n = _mm512_roundscale_ps(x.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const Vector p = Exp2OfFraction(hn::Sub(x, Vector{n}));
  return Vector{_mm512_maskz_scalef_ps(is_normal, p.raw, n)};
}
#else
HWY_INLINE Vector Exp2(Vector x) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> bits;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits, here with the exponent's
  // bias of 127: 2^n is put together from them.
  const Vector magic = hn::Set(d, 12582912.0F + 127.0F);
  const Vector shifted = hn::Add(x, magic);
  const Vector f = hn::Sub(x, hn::Sub(shifted, magic));
  const Vector power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0F)), hn::Mul(Exp2OfFraction(f), power));
}
#endif

// tanh(x) = 1 - 2 / (e^2x + 1), from which +-1 cannot be told beyond +-10. Its error is absolute: some
// 2^-23, as the error bound has it for kernels without a tanh of their own.
HWY_INLINE Vector Tanh(Vector x) {
  const Floats d;
  const Vector limit = hn::Set(d, 10.0F);
  x = hn::IfThenElse(hn::Gt(x, limit), limit, x);  // NaN stays, as it would not with Min
  x = hn::IfThenElse(hn::Lt(x, hn::Neg(limit)), hn::Neg(limit), x);
  const Vector e = Exp2(hn::Mul(x, hn::Set(d, 2 * kLog2E)));
  return hn::Sub(hn::Set(d, 1.0F), hn::Div(hn::Set(d, 2.0F), hn::Add(e, hn::Set(d, 1.0F))));
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
