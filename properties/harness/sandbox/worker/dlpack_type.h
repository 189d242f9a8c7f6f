// Element types as DLPack names them. For whoever makes DLTensors: the worker, and fuzz targets.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_DLPACK_TYPE_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_DLPACK_TYPE_H_

#include <attest/kernel.h>

#include "impl/attention/dtype.h"

namespace attest {

// DLPack 0.6 has no type for booleans, nor for 8-bit floats: both are plain bytes.
inline DLDataType DLPackType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {kDLFloat, 32, 1};
    case DType::kF64:
      return {kDLFloat, 64, 1};
    case DType::kF16:
      return {kDLFloat, 16, 1};
    case DType::kBF16:
      return {kDLBfloat, 16, 1};
    case DType::kI64:
      return {kDLInt, 64, 1};
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
      break;
  }
  return {kDLUInt, 8, 1};
}

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_DLPACK_TYPE_H_
