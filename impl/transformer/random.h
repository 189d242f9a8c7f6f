// Random numbers by counter: the n-th number of a stream is a function of seed, stream and n, in
// integer arithmetic, so that weights, dropout and data are the same everywhere and in any order.
#ifndef ATTEST_TRANSFORMER_RANDOM_H_
#define ATTEST_TRANSFORMER_RANDOM_H_

#include <cstdint>

namespace attest::transformer {

// The finaliser of SplitMix64: a bijection in which every bit of the argument changes half of the
// result.
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

struct Stream {
  uint64_t key;

  constexpr Stream(uint64_t seed, uint64_t stream) : key(Mix(Mix(seed) ^ stream)) {}

  constexpr uint64_t Bits(uint64_t n) const { return Mix(key ^ Mix(n)); }
  // In [0, 1), a multiple of 2^-24, so that float has it exactly.
  constexpr double Uniform(uint64_t n) const {
    return static_cast<double>(Bits(n) >> 40) * 0x1p-24;
  }
  // In [-1, 1).
  constexpr double Symmetric(uint64_t n) const { return 2 * Uniform(n) - 1; }
  // In [0, bound); the bias is below bound / 2^40.
  constexpr int64_t Below(uint64_t n, int64_t bound) const {
    return static_cast<int64_t>((Bits(n) >> 24) % static_cast<uint64_t>(bound));
  }
};

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_RANDOM_H_
