// Random problems and 113-bit arithmetic for this folder's tests, made without the harness (impl
// never uses properties).
#ifndef ATTEST_REFERENCE_TESTING_H_
#define ATTEST_REFERENCE_TESTING_H_

#include <cmath>
#include <limits>
#include <random>

#include "impl/attention/problem.h"
#include "impl/reference/bound.h"

namespace attest {

// 113 significant bits, in software: on arm64 Linux long double is such a number.
#ifdef __SIZEOF_FLOAT128__
using Quad = __float128;
#else
using Quad = long double;
static_assert(std::numeric_limits<Quad>::digits == 113);
#endif

// e^x for |x| < 700 with a relative error below 2^-90: the Taylor series of x / 2^16, squared 16
// times.
inline Quad QuadExp(Quad x) {
  const Quad reduced = x / 65536;
  Quad power = 1, term = 1;
  for (int n = 1; n < 40; ++n) power += (term *= reduced / n);
  for (int n = 0; n < 16; ++n) power *= power;
  return power;
}

// What a problem may have beside what Draw gives it.
enum class Extra {
  kSoftcap,
  kAlibi,
  kSinks,
  kDropout,
  kQueryLengths,
  kPrefixLengths,
  kDocuments,
  kBlockMask,
  kBiasF32,
  kFp8,
};
constexpr Extra kExtras[] = {Extra::kSoftcap,   Extra::kAlibi,        Extra::kSinks,
                             Extra::kDropout,   Extra::kQueryLengths, Extra::kPrefixLengths,
                             Extra::kDocuments, Extra::kBlockMask,    Extra::kBiasF32,
                             Extra::kFp8};

class RandomProblems {
 public:
  explicit RandomProblems(uint64_t seed) : engine_(seed) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  double Normal(double sigma) { return std::normal_distribution<double>(0, sigma)(engine_); }

  Problem Draw() {
    Problem p;
    p.batch = 1 + Below(3);
    p.kv_heads = 1 + Below(3);
    p.q_heads = p.kv_heads * (1 + Below(3));
    p.q_len = Below(7);
    p.kv_len = Below(12);
    p.head_dim = Below(9);
    p.value_dim = Below(6);
    if (Below(2)) p.scale = Normal(1);
    p.causal = Below(2) != 0;
    for (int64_t b = 0; b < p.batch; ++b) p.diagonal_offset.push_back(Below(9) - 4);
    if (Below(3) == 0) p.window.left = Below(4);
    if (Below(3) == 0) p.window.right = Below(4);
    if (Below(2)) {
      p.key_lengths.emplace();
      for (int64_t b = 0; b < p.batch; ++b) p.key_lengths->push_back(Below(p.kv_len + 1));
    }
    if (Below(2)) p.mask = DrawPlane(p);
    if (Below(2)) p.bias = DrawPlane(p);
    return p;
  }

  // One with the whole surface of attention: any extras, any scores asked for.
  Problem DrawSurface() {
    Problem p = Draw();
    for (const Extra extra : kExtras) {
      if (Below(4) == 0) Add(extra, p);
    }
    p.want_weights = Below(2) != 0;
    if (Below(2)) p.want_scores = static_cast<ScoreMode>(Below(4));
    return p;
  }

  void Add(Extra extra, Problem& p) {
    const auto lengths = [&](int64_t most) {
      std::vector<int64_t> drawn;
      for (int64_t b = 0; b < p.batch; ++b) drawn.push_back(Below(most + 1));
      return drawn;
    };
    const auto by_head = [&](auto&& draw) {
      std::vector<double> drawn;
      for (int64_t h = 0; h < p.q_heads; ++h) drawn.push_back(RoundTo(DType::kF32, draw()));
      return drawn;
    };
    switch (extra) {
      case Extra::kSoftcap:
        p.softcap =
            std::ldexp(1.0 + 0.1 * static_cast<double>(Below(10)), static_cast<int>(Below(9)) - 2);
        break;
      case Extra::kAlibi:
        p.alibi_slopes = by_head([&] { return std::abs(Normal(0.5)); });
        break;
      case Extra::kSinks:
        p.sinks = by_head([&] { return Normal(3); });
        break;
      case Extra::kDropout:
        p.dropout = Dropout{0.1 * static_cast<double>(Below(10)), DrawFullPlane(p)};
        break;
      case Extra::kQueryLengths:
        p.query_lengths = lengths(p.q_len);
        break;
      case Extra::kPrefixLengths:
        p.prefix_lengths = lengths(p.kv_len);
        break;
      case Extra::kDocuments:
        p.documents = Documents{DrawIds(p.batch * p.q_len), DrawIds(p.batch * p.kv_len)};
        break;
      case Extra::kBlockMask:
        p.block_mask = DrawBlockMask(p);
        break;
      case Extra::kBiasF32:
        if (!p.bias) p.bias = DrawPlane(p);
        p.bias_dtype = DType::kF32;
        break;
      case Extra::kFp8:
        p.fp8 = Fp8{Below(2) ? DType::kE4M3 : DType::kE5M2, DrawScale(), DrawScale(), DrawScale()};
        break;
    }
  }

  // Normal data of the given spread, rounded to the dtype; bias -inf where its plane hides.
  Inputs Fill(const Problem& p, double sigma) {
    Inputs in{Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), {}};
    for (Array* a : {&in.q, &in.k}) {
      for (double& x : a->values) x = RoundTo(p.dtype, Normal(sigma));
    }
    for (double& x : in.v.values) x = RoundTo(p.dtype, Normal(1));
    if (p.fp8) {
      RoundToFp8(*p.fp8, p.fp8->q_scale, in.q);
      RoundToFp8(*p.fp8, p.fp8->k_scale, in.k);
      RoundToFp8(*p.fp8, p.fp8->v_scale, in.v);
    }
    if (p.bias) {
      in.bias = Array(p.bias->shape);
      for (size_t i = 0; i < in.bias.values.size(); ++i) {
        in.bias.values[i] = p.bias->bits[i] ? RoundTo(p.BiasDType(), Normal(2))
                                            : -std::numeric_limits<double>::infinity();
      }
    }
    return in;
  }

 private:
  static void RoundToFp8(const Fp8& fp8, double scale, Array& array) {
    const double largest = TraitsOf(fp8.format).max_finite;
    for (double& x : array.values) {
      x = scale * RoundTo(fp8.format, std::max(-largest, std::min(largest, x / scale)));
    }
  }
  double DrawScale() { return RoundTo(DType::kF32, std::exp(Normal(1))); }

  std::vector<int64_t> DrawIds(int64_t n) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(Below(2) * 7 - 1);
    return ids;
  }
  BlockMask DrawBlockMask(const Problem& p) {
    BlockMask mask{1 + Below(4), 1 + Below(4), {}};
    mask.plane.shape = {Below(2) ? p.batch : 1, Below(2) ? p.q_heads : 1,
                        (p.q_len + mask.block_q - 1) / mask.block_q,
                        (p.kv_len + mask.block_k - 1) / mask.block_k};
    DrawBits(mask.plane);
    return mask;
  }
  BitPlane DrawFullPlane(const Problem& p) {
    BitPlane plane;
    plane.shape = p.WeightsShape();
    DrawBits(plane);
    return plane;
  }
  void DrawBits(BitPlane& plane) {
    for (int64_t n = ElementCount(plane.shape); n > 0; --n) plane.bits.push_back(Below(4) != 0);
  }
  BitPlane DrawPlane(const Problem& p) {
    BitPlane plane;
    plane.shape = p.WeightsShape();
    for (int64_t& extent : plane.shape) {
      if (Below(3) == 0) extent = 1;
    }
    DrawBits(plane);
    return plane;
  }

  std::mt19937_64 engine_;
};

// A tier of the bound as arrays of the outputs' shapes.
struct BoundArrays {
  Array out, lse, weights, scores;
};
inline BoundArrays ArraysOf(const Problem& p, ErrorBound& bound,
                            const RowNumbers& (ErrorBound::*tier)(const Row&)) {
  BoundArrays arrays{Array(p.OutShape()), Array(p.LseShape()), Array(p.WeightsShape()),
                     Array(p.WeightsShape())};
  ForEachRow(p, [&](const Row& row) {
    const RowNumbers& numbers = (bound.*tier)(row);
    const auto place = [&](Array& array, const std::vector<double>& values) {
      for (size_t n = 0; n < values.size(); ++n) {
        array.At(row.batch, row.head, row.query, static_cast<int64_t>(n)) = values[n];
      }
    };
    place(arrays.out, numbers.out);
    place(arrays.lse, {numbers.lse});
    place(arrays.weights, numbers.weights);
    place(arrays.scores, numbers.scores);
  });
  return arrays;
}

}  // namespace attest

#endif  // ATTEST_REFERENCE_TESTING_H_
