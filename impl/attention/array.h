// Dense four-dimensional data in row-major order, as doubles: how the harness holds every tensor
// outside a kernel call. Lower-rank tensors use leading or trailing extents of 1 as their owner
// says.
#ifndef ATTEST_ATTENTION_ARRAY_H_
#define ATTEST_ATTENTION_ARRAY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace attest {

using Shape4 = std::array<int64_t, 4>;

inline int64_t ElementCount(const Shape4& shape) {
  return shape[0] * shape[1] * shape[2] * shape[3];
}

struct Array {
  Shape4 shape{0, 0, 0, 0};
  std::vector<double> values;

  Array() = default;
  explicit Array(const Shape4& s, double fill = 0.0)
      : shape(s), values(static_cast<size_t>(ElementCount(s)), fill) {}

  bool empty() const { return values.empty(); }
  size_t Index(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return static_cast<size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
  }
  double& At(int64_t a, int64_t b, int64_t c, int64_t d) { return values[Index(a, b, c, d)]; }
  double At(int64_t a, int64_t b, int64_t c, int64_t d) const { return values[Index(a, b, c, d)]; }

  // The element that stands for these indices where an extent of 1 stands for every index.
  double Broadcast(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return At(shape[0] == 1 ? 0 : a, shape[1] == 1 ? 0 : b, shape[2] == 1 ? 0 : c,
              shape[3] == 1 ? 0 : d);
  }

  friend bool operator==(const Array&, const Array&) = default;
};

}  // namespace attest

#endif  // ATTEST_ATTENTION_ARRAY_H_
