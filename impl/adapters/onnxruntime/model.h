// Builds the one-node ONNX models that the adapter runs: the standard's Attention operator with
// exactly the inputs, outputs and attributes of a call. Sizes are left open, so one model serves
// every size.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_MODEL_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_MODEL_H_

#include <optional>
#include <string>

#include "impl/adapters/onnxruntime/runtime.h"

namespace attest::ort {

// The tensor names in every model.
inline constexpr char kQ[] = "Q";
inline constexpr char kK[] = "K";
inline constexpr char kV[] = "V";
inline constexpr char kAttnMask[] = "attn_mask";
inline constexpr char kKeyLengths[] = "nonpad_kv_seqlen";
inline constexpr char kY[] = "Y";
inline constexpr char kWeights[] = "qk_matmul_output";

struct ModelSpec {
  int opset = 24;
  ElementType type = ElementType::kFloat;  // of Q, K, V, Y and the weights
  float scale = 1;                         // the operator's attribute is an f32
  bool causal = false;
  std::optional<ElementType> mask = std::nullopt;  // of attn_mask: kBool, or a float for a bias
  bool key_lengths = false;                        // needs opset 24
  bool weights = false;  // qk_matmul_output in mode 3: softmax probabilities
};

// The serialised ModelProto. Equal specs give equal bytes, so the bytes can serve as a key.
std::string BuildModel(const ModelSpec& spec);

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_MODEL_H_
