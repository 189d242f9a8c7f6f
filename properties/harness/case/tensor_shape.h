// The shape of each data tensor of a problem, and how many elements a problem has in all.
#ifndef ATTEST_HARNESS_CASE_TENSOR_SHAPE_H_
#define ATTEST_HARNESS_CASE_TENSOR_SHAPE_H_

#include "properties/harness/case/case.h"

namespace attest {

// [0, 0, 0, 0] for the bias of a problem without one.
inline Shape4 ShapeOf(const Problem& p, DataTensor tensor) {
  switch (tensor) {
    case DataTensor::kQ:
      return p.QShape();
    case DataTensor::kK:
      return p.KShape();
    case DataTensor::kV:
      return p.VShape();
    case DataTensor::kBias:
      break;
  }
  return p.bias ? p.bias->shape : Shape4{0, 0, 0, 0};
}

inline int64_t DataElements(const Problem& p) {
  int64_t count = 0;
  for (const DataTensor tensor : kDataTensors) count += ElementCount(ShapeOf(p, tensor));
  return count;
}

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_TENSOR_SHAPE_H_
