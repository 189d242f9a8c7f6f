// The product of Eigen, see yardsticks.h. In a shared library by itself and with its symbols hidden, for
// code that is compiled for this machine alone must not be linked to any other of Eigen's.
#include <Eigen/Core>

extern "C" __attribute__((visibility("default"))) void AttestEigenProduct(const float* a,
                                                                          const float* b, float* c,
                                                                          int n) {
  using Matrix = Eigen::MatrixXf;
  Eigen::Map<Matrix>(c, n, n).noalias() =
      Eigen::Map<const Matrix>(a, n, n) * Eigen::Map<const Matrix>(b, n, n);
}
