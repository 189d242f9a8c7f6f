// Builds the one-node ONNX models that the adapter runs: an operator with exactly the inputs, outputs
// and attributes of a call. Sizes are left open, so one model serves every size.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_MODEL_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_MODEL_H_

#include <string>

#include "impl/adapters/onnxruntime/onnx_call.h"

namespace attest::ort {

// The serialised ModelProto. Calls that differ only in sizes and data give equal bytes, so the bytes
// can serve as a key.
std::string BuildModel(const OnnxCall& call);

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_MODEL_H_
