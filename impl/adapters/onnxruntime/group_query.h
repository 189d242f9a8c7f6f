// ONNX Runtime's com.microsoft.GroupQueryAttention: its contract, and attest calls read as its calls.
// The queries are always those of the last tokens, and their own keys come apart from those of the
// past, so that the adapter splits each item's keys at (its length - q_len), by copying.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_GROUP_QUERY_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_GROUP_QUERY_H_

#include <string>

#include "attest/kernel.h"
#include "impl/adapters/onnxruntime/onnx_call.h"

namespace attest::ort {

// Whether a version of the runtime has the attribute that switches causality off: since 1.30.
bool HasCausalSwitch(const std::string& version);

std::string GroupQueryContract(const Settings& settings);

// One call.
OnnxCalls ReadGroupQuery(const attest_call& call, const Settings& settings);

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_GROUP_QUERY_H_
