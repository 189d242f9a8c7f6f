// ONNX's own Attention operator, opsets 23 and 24: its contract, and attest calls read as its calls.
// Nothing is copied and no value is looked at; the conventions agree by contract.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_ATTENTION_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_ATTENTION_H_

#include <string>

#include "attest/kernel.h"
#include "impl/adapters/onnxruntime/onnx_call.h"

namespace attest::ort {

std::string AttentionContract(const Settings& settings);

// Two calls where both the weights and scores are wanted: the operator has one output for the two.
OnnxCalls ReadAttention(const attest_call& call, const Settings& settings);

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_ATTENTION_H_
