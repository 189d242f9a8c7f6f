// The one source of pseudo-random bits in cases: a mixing function, and a stream of draws over it.
// Integer arithmetic only, so that a seed means the same on every machine; <random> does not
// promise that for its distributions.
#ifndef ATTEST_HARNESS_CASE_RANDOM_H_
#define ATTEST_HARNESS_CASE_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace attest {

// The finaliser of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators"): every output bit depends on every input bit.
inline uint64_t MixBits(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Folds one more value into a hash; the order of values matters.
inline uint64_t MixIn(uint64_t hash, uint64_t value) {
  return MixBits(hash ^ MixBits(value));
}

// A stream of draws. The ranges are tiny beside 2^64, so the bias of the modulus is of no account.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(MixBits(seed)) {}

  uint64_t Bits() {
    state_ += 0x9E3779B97F4A7C15u;
    return MixBits(state_);
  }
  // Uniform in 0..count-1; count must be positive.
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(Bits() % static_cast<uint64_t>(count));
  }
  // Uniform in first..last, both included; first <= last.
  int64_t Between(int64_t first, int64_t last) { return first + Below(last - first + 1); }
  bool Percent(int64_t percent) { return Below(100) < percent; }
  bool OneIn(int64_t count) { return Below(count) == 0; }
  // `choices` must not be empty.
  template <typename T>
  T Pick(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(Below(static_cast<int64_t>(choices.size())))];
  }

 private:
  uint64_t state_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_RANDOM_H_
