// One run of one ONNX operator: which node, with which attributes, over which memory. The operators'
// readers (attention.h, multi_head.h, group_query.h) make it of an attest call, model.h builds its
// model, kernel.cc runs it.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_ONNX_CALL_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_ONNX_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "impl/abi/call_view.h"
#include "impl/adapters/onnxruntime/runtime.h"

namespace attest::ort {

struct Attribute {
  const char* name;
  std::variant<int64_t, float> value;
};

// Inputs and outputs stand at their positions in the operator's definition; one without a name is
// absent. Their data are the caller's, or lie in `copies`, which moves with the call.
struct OnnxCall {
  const char* op = "Attention";
  const char* domain = "";  // "": the standard's own operators
  int opset = 24;           // of the standard
  std::vector<Attribute> attributes = {};
  std::vector<Tensor> inputs = {}, outputs = {};
  std::vector<std::vector<std::byte>> copies = {};
};

// What an instance was created with.
struct Settings {
  std::string variant = "attention";
  std::string version = {};
  int opset = 24;              // attention: 23 or 24
  bool past = false;           // attention, mha: offers past and present instead of key lengths
  std::string step = "token";  // gqa: token, ragged or chunk; see GroupQueryContract
  bool sinks = false;          // gqa: offers a sink for each head, in f32 only
};

// The calls that answer one attest call, or why there is none: what the operator has no word for is
// ATTEST_UNSUPPORTED, what no kernel could make sense of ATTEST_INVALID_ARGUMENT. They point into
// the call's tensors.
using OnnxCalls = tl::expected<std::vector<OnnxCall>, CallError>;

// What the readers of the 3-D operators share. `type` is that of a CallView; nullopt: ONNX Runtime
// has no such kernel.
std::optional<ElementType> ElementTypeOf(DType type);

// A dense tensor over `data`.
Tensor MakeTensor(const char* name, ElementType type, std::vector<int64_t> shape, void* data);

// A dense tensor over memory of the call's own, all bytes 0.
Tensor MakeCopy(const char* name, ElementType type, std::vector<int64_t> shape, OnnxCall* call);

// A [batch, heads, len, dim] tensor that lies in memory as [batch, len, heads * dim], in that shape;
// ATTEST_UNSUPPORTED where it lies otherwise.
tl::expected<Tensor, CallError> AsHidden(const char* name, ElementType type,
                                         const TensorView& view);

// A tensor of four dimensions as [batch, heads, rows, columns], of which the first `columns` are
// taken; copied where it does not lie so already.
Tensor AsDense(const char* name, ElementType type, const TensorView& view, int64_t columns,
               OnnxCall* call);

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_ONNX_CALL_H_
