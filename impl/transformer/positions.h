// How tokens know where they stand: position ids of a batch, the sinusoidal table, rotary positions
// (RoPE) and the slopes of ALiBi.
#ifndef ATTEST_TRANSFORMER_POSITIONS_H_
#define ATTEST_TRANSFORMER_POSITIONS_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "impl/transformer/config.h"
#include "impl/transformer/matrix.h"
#include "impl/transformer/tokens.h"

namespace attest::transformer {

// The position of each token, [batch * len]: from 0 (or first_position) at the first of a sequence,
// or of each document; `past` [batch], if any, are so many tokens before those. Padding stands at
// 0.
std::vector<int64_t> PositionIds(const Places& places, const std::vector<int64_t>& past,
                                 Fault fault = Fault::kNone);

// [len, dim]: column 2 c is sin(position / 10000^(2 c / dim)), column 2 c + 1 the cosine.
template <typename T>
Matrix<T> SinusoidalTable(int64_t len, int64_t dim) {
  Matrix<T> table(len, dim);
  for (int64_t p = 0; p < len; ++p) {
    for (int64_t c = 0; c < dim; ++c) {
      const double pair = static_cast<double>(c - c % 2) / static_cast<double>(dim);
      const double angle = static_cast<double>(p) / std::pow(10000.0, pair);
      table(p, c) = static_cast<T>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

// Rotates each head of each row by its position: pair c by position / 10000^(2 c / head_dim).
// `forward` false turns the other way, which is the gradient.
template <typename T>
void Rotate(Matrix<T>& x, int64_t head_dim, const std::vector<int64_t>& positions, bool interleaved,
            bool forward = true) {
  const int64_t half = head_dim / 2;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < half; ++c) {
      const double rate =
          std::pow(10000.0, -2.0 * static_cast<double>(c) / static_cast<double>(head_dim));
      const double angle = static_cast<double>(positions[static_cast<size_t>(r)]) * rate;
      const T cosine(static_cast<T>(std::cos(angle)));
      const T sine(static_cast<T>(forward ? std::sin(angle) : -std::sin(angle)));
      for (int64_t head = 0; head < x.cols(); head += head_dim) {
        T& a = x(r, head + (interleaved ? 2 * c : c));
        T& b = x(r, head + (interleaved ? 2 * c + 1 : c + half));
        const T turned = a * cosine - b * sine;
        b = a * sine + b * cosine;
        a = turned;
      }
    }
  }
}

// The published rule: 2^(-8 (h + 1) / heads) where heads is a power of two, else the slopes of the
// next smaller power of two, then every second one of the next larger.
std::vector<double> AlibiSlopes(int64_t heads);

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_POSITIONS_H_
