// Strides and storage of one tensor in a given layout: what lies where during a call.
#ifndef ATTEST_HARNESS_LOWER_TENSOR_IMAGE_H_
#define ATTEST_HARNESS_LOWER_TENSOR_IMAGE_H_

#include <cstdint>
#include <vector>

#include "impl/attention/array.h"
#include "properties/harness/case/case.h"

namespace attest {

// Strides in elements of a [batch, heads, len, dim] tensor in `layout`.
std::vector<int64_t> StridesOf(const Shape4& shape, Layout layout);

// Elements from the first to one past the last, gaps included; 0 when some extent is 0.
int64_t ExtentOf(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

}  // namespace attest

#endif  // ATTEST_HARNESS_LOWER_TENSOR_IMAGE_H_
