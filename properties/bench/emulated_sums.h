// How the emulated kernels add: sums of products in precision T (float or double) in the orders and
// roundings that real kernels have. Private to emulated_kernel.cc. Compiled without contraction, so
// that a product and an addition round where they are written.
#ifndef ATTEST_BENCH_EMULATED_SUMS_H_
#define ATTEST_BENCH_EMULATED_SUMS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace attest {

// Holds a product of two T, and sums of a few, without an error that would matter in T.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

// a b + c with one rounding. For float the double sum is rounded once more, which moves the result
// by at most 2^-29 of its last place beyond half of it.
inline float FusedMultiplyAdd(float a, float b, float c) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) +
                            static_cast<double>(c));
}
inline double FusedMultiplyAdd(double a, double b, double c) {
  return std::fma(a, b, c);
}

// a + b rounded towards zero: the rounded sum, one step back where its error (Knuth's TwoSum, exact)
// says that rounding went away from zero.
template <typename T>
T TruncatedAdd(T a, T b) {
  const T sum = a + b;
  const T b_part = sum - a;
  const T error = (a - (sum - b_part)) + (b - b_part);
  return (sum > 0 && error < 0) || (sum < 0 && error > 0) ? std::nextafter(sum, T{0}) : sum;
}

// A matrix unit's step: all addends aligned to the largest and cut at its last place, their sum cut
// to T's digits. At most count + 1 truncations, each below 2^(1 - digits) of the largest addend.
template <typename T>
T AlignedSum(const Wide<T>* addends, int count) {
  constexpr int kDigits = std::numeric_limits<T>::digits;
  Wide<T> largest = 0, plain = 0;
  for (int i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(addends[i]));
    plain += addends[i];
  }
  if (largest == 0 || !std::isfinite(plain)) return static_cast<T>(plain);
  constexpr int kLeastPlace = std::numeric_limits<T>::min_exponent - kDigits;
  const int place = std::max(std::ilogb(largest) - (kDigits - 1), kLeastPlace);
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += static_cast<int64_t>(std::ldexp(addends[i], -place));
  int extra = 0;
  while (std::abs(sum) >> (kDigits + extra) != 0) ++extra;
  sum -= sum % (int64_t{1} << extra);
  return static_cast<T>(std::ldexp(static_cast<Wide<T>>(sum), place));
}

template <typename T, typename Left, typename Right>
T PairwiseSum(int64_t first, int64_t last, const Left& left, const Right& right) {
  if (last - first == 1) return left(first) * right(first);
  const int64_t middle = first + (last - first) / 2;
  return PairwiseSum<T>(first, middle, left, right) + PairwiseSum<T>(middle, last, left, right);
}

template <typename T, typename Left, typename Right>
T BlockUnitSum(T start, int64_t count, const Left& left, const Right& right) {
  constexpr int64_t kBlock = 16;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t last = std::min(count, first + kBlock);
    std::array<Wide<T>, kBlock + 1> addends;
    addends[0] = start;
    for (int64_t i = first; i < last; ++i) {
      addends[static_cast<size_t>(i - first + 1)] =
          static_cast<Wide<T>>(left(i)) * static_cast<Wide<T>>(right(i));
    }
    start = AlignedSum<T>(addends.data(), static_cast<int>(last - first + 1));
  }
  return start;
}

template <typename T, typename Left, typename Right>
T WideSum(T start, int64_t count, const Left& left, const Right& right) {
  Wide<T> sum = start;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<Wide<T>>(left(i)) * static_cast<Wide<T>>(right(i));
  }
  return static_cast<T>(sum);
}

}  // namespace attest

#endif  // ATTEST_BENCH_EMULATED_SUMS_H_
