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

  // Normal data of the given spread, rounded to the dtype; bias -inf where its plane hides.
  Inputs Fill(const Problem& p, double sigma) {
    Inputs in{Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), {}};
    for (Array* a : {&in.q, &in.k}) {
      for (double& x : a->values) x = RoundTo(p.dtype, Normal(sigma));
    }
    for (double& x : in.v.values) x = RoundTo(p.dtype, Normal(1));
    if (p.bias) {
      in.bias = Array(p.bias->shape);
      for (size_t i = 0; i < in.bias.values.size(); ++i) {
        in.bias.values[i] = p.bias->bits[i] ? RoundTo(p.dtype, Normal(2))
                                            : -std::numeric_limits<double>::infinity();
      }
    }
    return in;
  }

 private:
  BitPlane DrawPlane(const Problem& p) {
    BitPlane plane;
    plane.shape = p.WeightsShape();
    for (int64_t& extent : plane.shape) {
      if (Below(3) == 0) extent = 1;
    }
    for (int64_t n = ElementCount(plane.shape); n > 0; --n) plane.bits.push_back(Below(4) != 0);
    return plane;
  }

  std::mt19937_64 engine_;
};

// A tier of the bound as arrays of the outputs' shapes.
struct BoundArrays {
  Array out, lse, weights;
};
inline BoundArrays ArraysOf(const Problem& p, ErrorBound& bound,
                            const RowNumbers& (ErrorBound::*tier)(const Row&)) {
  BoundArrays arrays{Array(p.OutShape()), Array(p.LseShape()), Array(p.WeightsShape())};
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
  });
  return arrays;
}

}  // namespace attest

#endif  // ATTEST_REFERENCE_TESTING_H_
