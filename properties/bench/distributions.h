// Random problems for attest_bench: shapes, masks and data that reach every term of the bound, from
// plain normal values to logits of 1e4 and weights at the edge of underflow. Callers: the tables.
#ifndef ATTEST_BENCH_DISTRIBUTIONS_H_
#define ATTEST_BENCH_DISTRIBUTIONS_H_

#include <array>
#include <cstdint>
#include <random>
#include <string_view>

#include "impl/attention/problem.h"

namespace attest {

using Random = std::mt19937_64;

enum class Distribution : uint8_t {
  kNormal,
  kHeavyTailed,  // normal times a power of two from 2^-6 to 2^6
  kScoresTo30,
  kScoresTo1e4,
  kOneHot,  // one key outweighs all others by e^40
  kEqualKeys,
  kFewKeys,     // two to five distinct ones
  kCancelling,  // V of +-c, alternating or in halves
  kDenormals,
  kSmallIntegers,
  kPositiveValues,
  kNearTies,      // scores of about 1e4 that differ by about 1
  kVeryNegative,  // every score below -90
  kTinyWeights,   // weights around the least normal and subnormal of P, on large values
};
inline constexpr int kDistributionCount = 14;
std::string_view Name(Distribution distribution);

inline constexpr std::array<DType, 4> kFloatTypes = {DType::kF32, DType::kF64, DType::kF16,
                                                     DType::kBF16};

struct Sample {
  Problem problem;  // one batch item, one head; lse wanted
  Inputs inputs;
};

struct SampleShape {
  int64_t rows = 1;       // q_len
  int64_t max_len = 256;  // of kv_len, drawn log-uniformly from 1
  int64_t max_dim = 256;  // of head_dim and value_dim, drawn alike
};

// A problem with a kv_len at a tile's edge (a multiple of 64) in one of four, one of four masks (none, causal, window, random bits), a bias in one of four, a
// scale of its own in one of four; values rounded to `dtype`.
Sample DrawSample(Distribution distribution, DType dtype, const SampleShape& shape, Random& random);

// Standard normal q, k and v of exactly this size; nothing hidden, no bias, scale 1/sqrt(dim).
Sample DrawNormalSample(DType dtype, int64_t rows, int64_t len, int64_t dim, Random& random);

}  // namespace attest

#endif  // ATTEST_BENCH_DISTRIBUTIONS_H_
