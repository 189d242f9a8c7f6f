// The layers that need no more than a matrix of tokens, each with its backward pass: linear, layer
// and RMS norm, GELU, SwiGLU, feed-forward, dropout. A Forward maps [tokens, in] to [tokens, out];
// its Backward takes the same input and the gradient of the output, adds to the weights' gradients,
// and returns the gradient of the input. Nothing is kept between the two: Backward computes again
// what it needs.
#ifndef ATTEST_TRANSFORMER_LAYERS_H_
#define ATTEST_TRANSFORMER_LAYERS_H_

#include <cmath>
#include <cstdint>
#include <numbers>

#include "impl/transformer/config.h"
#include "impl/transformer/matrix.h"
#include "impl/transformer/random.h"

namespace attest::transformer {

template <typename T>
struct Linear {
  Matrix<T> weight;  // [in, out]
  Matrix<T> bias;    // [1, out]; no elements: none
};

template <typename T>
Matrix<T> Forward(const Linear<T>& layer, const Matrix<T>& x) {
  Matrix<T> y = Product(x, layer.weight);
  if (layer.bias.size() != 0) y.rowwise() += layer.bias.row(0);
  return y;
}

template <typename T>
Matrix<T> Backward(const Linear<T>& layer, const Matrix<T>& x, const Matrix<T>& dy,
                   Linear<T>& gradient) {
  gradient.weight += x.transpose() * dy;
  if (layer.bias.size() != 0) gradient.bias += dy.colwise().sum();
  return dy * layer.weight.transpose();
}

template <typename T>
struct Norm {
  Matrix<T> gain;  // [1, dim]
  Matrix<T> bias;  // [1, dim] of a layer norm; of an RMS norm no elements
};

// Added to the variance, or mean square, before the root.
inline constexpr double kNormEpsilon = 1e-5;

// What a norm divides tokens by and, of a layer norm, takes away before: one of each a token.
template <typename T>
struct NormStatistics {
  Matrix<T> mean, deviation;  // [tokens, 1]
};

template <typename T>
NormStatistics<T> StatisticsOf(NormKind kind, const Matrix<T>& x, Fault fault = Fault::kNone) {
  NormStatistics<T> s{Matrix<T>::Zero(x.rows(), 1), Matrix<T>::Zero(x.rows(), 1)};
  const T n(static_cast<T>(x.cols()));
  for (int64_t r = 0; r < x.rows(); ++r) {
    T sum(0), square(0);
    if (kind == NormKind::kLayer) {
      for (int64_t c = 0; c < x.cols(); ++c) sum += x(r, c);
    }
    s.mean(r, 0) = sum / n;
    for (int64_t c = 0; c < x.cols(); ++c) {
      const T centred = x(r, c) - s.mean(r, 0);
      square += centred * centred;
    }
    s.deviation(r, 0) = std::sqrt(square / n + T(kNormEpsilon));
  }
  if (fault == Fault::kNormOverBatch) {
    s.mean.setConstant(s.mean.mean());
    s.deviation.setConstant(s.deviation.mean());
  }
  return s;
}

template <typename T>
Matrix<T> Forward(const Norm<T>& layer, NormKind kind, const Matrix<T>& x,
                  Fault fault = Fault::kNone) {
  const NormStatistics<T> s = StatisticsOf(kind, x, fault);
  Matrix<T> y(x.rows(), x.cols());
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.cols(); ++c) {
      y(r, c) = (x(r, c) - s.mean(r, 0)) / s.deviation(r, 0) * layer.gain(0, c);
      if (layer.bias.size() != 0) y(r, c) += layer.bias(0, c);
    }
  }
  return y;
}

template <typename T>
Matrix<T> Backward(const Norm<T>& layer, NormKind kind, const Matrix<T>& x, const Matrix<T>& dy,
                   Norm<T>& gradient) {
  const NormStatistics<T> s = StatisticsOf(kind, x);
  Matrix<T> normal = x;  // what the gain multiplies
  normal.colwise() -= s.mean.col(0);
  normal.array().colwise() /= s.deviation.col(0).array();
  gradient.gain += (dy.array() * normal.array()).matrix().colwise().sum();
  if (layer.bias.size() != 0) gradient.bias += dy.colwise().sum();
  Matrix<T> dx = dy;
  dx.array().rowwise() *= layer.gain.row(0).array();
  // Scaling a token, and of a layer norm shifting it, changes nothing: those directions fall out.
  for (int64_t r = 0; r < x.rows(); ++r) {
    const T along = dx.row(r).dot(normal.row(r)) / static_cast<T>(x.cols());
    const T shift = kind == NormKind::kLayer ? dx.row(r).mean() : T(0);
    for (int64_t c = 0; c < x.cols(); ++c) {
      dx(r, c) = (dx(r, c) - shift - along * normal(r, c)) / s.deviation(r, 0);
    }
  }
  return dx;
}

// x times the normal distribution's share below x.
template <typename T>
T Gelu(T x) {
  return x / 2 * (1 + std::erf(x / std::numbers::sqrt2_v<T>));
}

template <typename T>
T GeluSlope(T x) {
  const T share = (1 + std::erf(x / std::numbers::sqrt2_v<T>)) / 2;
  return share + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<T>);
}

// x times the logistic function of x, also known as SiLU.
template <typename T>
T Swish(T x) {
  return x / (1 + std::exp(-x));
}

template <typename T>
T SwishSlope(T x) {
  const T share = 1 / (1 + std::exp(-x));
  return share + x * share * (1 - share);
}

// GELU: down(gelu(up(x))). SwiGLU: down(swish(gate(x)) * up(x)).
template <typename T>
struct FeedForward {
  Linear<T> up, down;
  Linear<T> gate;  // of SwiGLU; else no elements
};

// What goes into `down`, from what `up` and `gate` gave.
template <typename T>
Matrix<T> Activate(Activation kind, const Matrix<T>& up, const Matrix<T>& gate) {
  if (kind == Activation::kGelu) return up.unaryExpr([](T x) { return Gelu(x); });
  return up.binaryExpr(gate, [](T u, T g) { return Swish(g) * u; });
}

template <typename T>
Matrix<T> Forward(const FeedForward<T>& layer, Activation kind, const Matrix<T>& x) {
  const Matrix<T> up = Forward(layer.up, x);
  if (kind == Activation::kGelu) return Forward(layer.down, Activate<T>(kind, up, {}));
  return Forward(layer.down, Activate(kind, up, Forward(layer.gate, x)));
}

template <typename T>
Matrix<T> Backward(const FeedForward<T>& layer, Activation kind, const Matrix<T>& x,
                   const Matrix<T>& dy, FeedForward<T>& gradient) {
  const Matrix<T> up = Forward(layer.up, x);
  if (kind == Activation::kGelu) {
    const Matrix<T> hidden = Activate<T>(kind, up, {});
    const Matrix<T> dhidden = Backward(layer.down, hidden, dy, gradient.down);
    const Matrix<T> dup = dhidden.binaryExpr(up, [](T d, T u) { return d * GeluSlope(u); });
    return Backward(layer.up, x, dup, gradient.up);
  }
  const Matrix<T> gate = Forward(layer.gate, x);
  const Matrix<T> dhidden = Backward(layer.down, Activate(kind, up, gate), dy, gradient.down);
  const Matrix<T> dup = dhidden.binaryExpr(gate, [](T d, T g) { return d * Swish(g); });
  const Matrix<T> dgate = (dhidden.array() * up.array() * gate.array().unaryExpr([](T g) {
                            return SwishSlope(g);
                          })).matrix();
  return Backward(layer.up, x, dup, gradient.up) + Backward(layer.gate, x, dgate, gradient.gate);
}

// Which elements dropout keeps is a function of the seed, so that Backward drops the same ones.
// Kept ones grow by 1 / (1 - share), so that the mean stays. It is its own gradient.
template <typename T>
Matrix<T> Dropout(Matrix<T> x, double share, uint64_t seed, uint64_t site) {
  const Stream stream(seed, site);
  for (int64_t n = 0; n < x.size(); ++n) {
    const bool kept = stream.Uniform(static_cast<uint64_t>(n)) >= share;
    x.data()[n] = kept ? x.data()[n] / T(1 - share) : T(0);
  }
  return x;
}

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_LAYERS_H_
