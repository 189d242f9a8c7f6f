// The arithmetic under every layer: row-major matrices and their products, written so that a row of
// a result depends on that row alone, bit for bit, wherever it stands and whatever stands beside
// it. Eigen's own products do not promise that, so the forward pass does not use them; gradients
// do. The scalar may be any type with MultiplyAdd, such as one that counts.
#ifndef ATTEST_TRANSFORMER_MATRIX_H_
#define ATTEST_TRANSFORMER_MATRIX_H_

#include <Eigen/Core>
#include <cstdint>

namespace attest::transformer {

// One token or key a row.
template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The one operation whose number is the cost of a model.
template <typename T>
T MultiplyAdd(const T& a, const T& b, const T& sum) {
  return a * b + sum;
}

template <typename T>
T Dot(const T* a, const T* b, int64_t n) {
  T sum(0);
  for (int64_t i = 0; i < n; ++i) sum = MultiplyAdd(a[i], b[i], sum);
  return sum;
}

// y += a x.
template <typename T>
void Accumulate(const T& a, const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = MultiplyAdd(a, x[i], y[i]);
}

// x w, summed in ascending order.
template <typename T>
Matrix<T> Product(const Matrix<T>& x, const Matrix<T>& w) {
  Matrix<T> y = Matrix<T>::Zero(x.rows(), w.cols());
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t k = 0; k < x.cols(); ++k) {
      Accumulate(x(r, k), w.data() + k * w.cols(), y.data() + r * y.cols(), w.cols());
    }
  }
  return y;
}

// x w^T.
template <typename T>
Matrix<T> ProductWithTransposed(const Matrix<T>& x, const Matrix<T>& w) {
  Matrix<T> y(x.rows(), w.rows());
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < w.rows(); ++c) {
      y(r, c) = Dot(x.data() + r * x.cols(), w.data() + c * w.cols(), x.cols());
    }
  }
  return y;
}

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_MATRIX_H_
