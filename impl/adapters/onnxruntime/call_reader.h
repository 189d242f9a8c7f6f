// Reads an attest call as an ONNX Attention call: which model it needs and which memory goes in and
// out. Nothing is copied and no value is looked at; the conventions agree by contract.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_CALL_READER_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_CALL_READER_H_

#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "attest/kernel.h"
#include "impl/adapters/onnxruntime/model.h"
#include "impl/adapters/onnxruntime/runtime.h"

namespace attest::ort {

// A status other than OK, with its one-line reason.
struct Refusal {
  attest_status status = ATTEST_FAILED;
  std::string message;
};

struct OnnxCall {
  ModelSpec model;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;  // Y first
};

// Roles, options, types and strides that ONNX has no word for are ATTEST_UNSUPPORTED; a call that
// no kernel could make sense of is ATTEST_INVALID_ARGUMENT. The result points into the call's
// tensors.
tl::expected<OnnxCall, Refusal> ReadCall(const attest_call& call, int opset);

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_CALL_READER_H_
