// The shape and the type of each data tensor of a problem, and how many elements a problem has in
// all.
#ifndef ATTEST_HARNESS_CASE_TENSOR_SHAPE_H_
#define ATTEST_HARNESS_CASE_TENSOR_SHAPE_H_

#include "properties/harness/case/case.h"

namespace attest {

// [0, 0, 0, 0] for the bias of a problem without one, and for dout where no gradients are wanted.
inline Shape4 ShapeOf(const Problem& p, DataTensor tensor) {
  switch (tensor) {
    case DataTensor::kQ:
      return p.QShape();
    case DataTensor::kK:
      return p.KShape();
    case DataTensor::kV:
      return p.VShape();
    case DataTensor::kDout:
      return p.want_gradients ? p.OutShape() : Shape4{0, 0, 0, 0};
    case DataTensor::kBias:
      break;
  }
  return p.bias ? p.bias->shape : Shape4{0, 0, 0, 0};
}

// The type that the tensor is stored in.
inline DType TypeOf(const Problem& p, DataTensor tensor) {
  if (tensor == DataTensor::kDout) return p.dtype;
  return tensor == DataTensor::kBias ? p.BiasDType() : p.InputDType();
}

// What a stored number is multiplied by: 1 but in fp8 problems.
inline double ScaleOf(const Problem& p, DataTensor tensor) {
  if (!p.fp8 || tensor == DataTensor::kBias || tensor == DataTensor::kDout) return 1;
  if (tensor == DataTensor::kQ) return p.fp8->q_scale;
  return tensor == DataTensor::kK ? p.fp8->k_scale : p.fp8->v_scale;
}

inline int64_t DataElements(const Problem& p) {
  int64_t count = 0;
  for (const DataTensor tensor : kDataTensors) count += ElementCount(ShapeOf(p, tensor));
  return count;
}

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_TENSOR_SHAPE_H_
