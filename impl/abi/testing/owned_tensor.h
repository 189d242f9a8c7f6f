// One tensor of a direct call with everything it points to: shape, strides, memory. For this folder
// only.
#ifndef ATTEST_ABI_TESTING_OWNED_TENSOR_H_
#define ATTEST_ABI_TESTING_OWNED_TENSOR_H_

#include <cstddef>
#include <vector>

#include "impl/abi/testing/direct_call.h"
#include "impl/attention/dtype.h"

namespace attest {

template <typename Visitor>
void ForEachIndex(const Shape4& shape, Visitor&& visit) {
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t c = 0; c < shape[2]; ++c)
        for (int64_t d = 0; d < shape[3]; ++d) visit(Shape4{a, b, c, d});
}

// Which axes of the four the kernel is shown.
struct ShownAxes {
  int first = 0;
  int rank = 4;
};

// Neither copied nor moved, as a call refers to it. Filled with the byte 0xA5.
class OwnedTensor {
 public:
  OwnedTensor(const Shape4& shape, DirectLayout layout, DType dtype, ShownAxes axes);
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;

  const DLTensor* tensor() const { return &tensor_; }
  const Shape4& shape() const { return shape_; }
  double Get(const Shape4& at) { return LoadElement(dtype_, Element(at)); }
  void Set(const Shape4& at, double value) { StoreElement(dtype_, Element(at), value); }

 private:
  std::byte* Element(const Shape4& at);

  Shape4 shape_;
  Shape4 strides_;  // in elements
  DType dtype_;
  std::vector<std::byte> storage_;
  DLTensor tensor_{};
};

}  // namespace attest

#endif  // ATTEST_ABI_TESTING_OWNED_TENSOR_H_
