// ONNX Runtime's com.microsoft.MultiHeadAttention: its contract, and attest calls read as its calls.
// q, k, v and out are [batch, len, heads * dim] there, which is how attest's bshd lies in memory.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_MULTI_HEAD_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_MULTI_HEAD_H_

#include <string>

#include "attest/kernel.h"
#include "impl/adapters/onnxruntime/onnx_call.h"

namespace attest::ort {

std::string MultiHeadContract(const Settings& settings);

// One call. The past is copied into the order that the operator wants, and key lengths become int32.
OnnxCalls ReadMultiHead(const attest_call& call, const Settings& settings);

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_MULTI_HEAD_H_
