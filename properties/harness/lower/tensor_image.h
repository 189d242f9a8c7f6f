// The tensors of a call: strides and storage of each in a given layout, and the making of their
// images from arrays, planes and lists. Private to the lowering.
#ifndef ATTEST_HARNESS_LOWER_TENSOR_IMAGE_H_
#define ATTEST_HARNESS_LOWER_TENSOR_IMAGE_H_

#include <cstdint>
#include <vector>

#include "impl/attention/array.h"
#include "impl/attention/problem.h"
#include "properties/harness/case/case.h"
#include "properties/harness/sandbox/call.h"

namespace attest {

// The last two extents of the one tensor [batch, len, heads, dim] that q, k and v are parts of in
// Layout::kPackedQkv.
struct QkvExtents {
  int64_t heads = 0;
  int64_t dim = 0;
};
QkvExtents QkvExtentsOf(const Problem& problem);

// How the tensors of a call lie: a layout, and what it needs to know of the problem.
struct Placing {
  Layout layout = Layout::kBhsd;
  QkvExtents qkv;
};

// Strides in elements of a [batch, heads, len, dim] tensor, as it lies in its image.
std::vector<int64_t> StridesOf(const Shape4& shape, const Placing& placing);

// A float tensor [batch, heads, len, dim] in its place, all of its image `fill`. In a far layout it is one of
// call.h's far tensors, unless it has one part alone or is too large for that.
CallTensor PlacedTensorOf(int32_t role, DType dtype, const Shape4& shape, const Placing& placing,
                          uint8_t fill);

// Elements from the first to one past the last, gaps included; 0 when some extent is 0.
int64_t ExtentOf(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

// A tensor whose whole image is `fill`; an output by its role.
CallTensor MakeTensor(int32_t role, DType dtype, std::vector<int64_t> shape,
                      std::vector<int64_t> strides, uint8_t fill);

// Row-major, without gaps.
CallTensor MakeDense(int32_t role, DType dtype, std::vector<int64_t> shape, uint8_t fill);

// An array of floats as [batch, heads, len, dim]; every value is divided by `unit` first.
CallTensor FloatTensor(int32_t role, DType dtype, const Array& array, const Placing& placing,
                       double unit, uint8_t fill);

// Floats in one dimension.
CallTensor FloatList(int32_t role, DType dtype, const std::vector<double>& values, uint8_t fill);

// Integers in row-major order of `shape`.
CallTensor IntegerTensor(int32_t role, std::vector<int64_t> shape,
                         const std::vector<int64_t>& values, uint8_t fill);

// A plane's trailing `rank` extents as bytes, each xor `flip`.
CallTensor BitTensor(int32_t role, const BitPlane& plane, uint8_t flip, uint8_t fill);

}  // namespace attest

#endif  // ATTEST_HARNESS_LOWER_TENSOR_IMAGE_H_
