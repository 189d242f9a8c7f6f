#include "impl/adapters/onnxruntime/model.h"

#include <onnx/onnx_pb.h>

namespace attest::ort {
namespace {

constexpr int kIrVersion = 10;     // accepted by every runtime that has the operator
constexpr int kProbabilities = 3;  // qk_matmul_output_mode: after softmax

// Declares a graph input or output of known type and open shape. Not even the rank is given: from
// open sizes the operator's shape inference (onnx 1.19) makes a kv_len of 0 for the weights.
void Declare(onnx::ValueInfoProto* value, const char* name, ElementType type) {
  value->set_name(name);
  value->mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int32_t>(type));
}

void AddAttribute(onnx::NodeProto* node, const char* name, int64_t value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void AddAttribute(onnx::NodeProto* node, const char* name, float value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(value);
}

// Inputs by position: Q K V attn_mask past_key past_value nonpad_kv_seqlen. An empty name is an
// absent input; trailing ones are left out.
void AddInputs(const ModelSpec& spec, onnx::GraphProto* graph, onnx::NodeProto* node) {
  for (const char* name : {kQ, kK, kV}) {
    node->add_input(name);
    Declare(graph->add_input(), name, spec.type);
  }
  if (spec.mask) {
    node->add_input(kAttnMask);
    Declare(graph->add_input(), kAttnMask, *spec.mask);
  }
  if (!spec.key_lengths) return;
  if (!spec.mask) node->add_input("");
  node->add_input("");
  node->add_input("");
  node->add_input(kKeyLengths);
  Declare(graph->add_input(), kKeyLengths, ElementType::kInt64);
}

// Outputs by position: Y present_key present_value qk_matmul_output.
void AddOutputs(const ModelSpec& spec, onnx::GraphProto* graph, onnx::NodeProto* node) {
  node->add_output(kY);
  Declare(graph->add_output(), kY, spec.type);
  if (!spec.weights) return;
  node->add_output("");
  node->add_output("");
  node->add_output(kWeights);
  Declare(graph->add_output(), kWeights, spec.type);
  AddAttribute(node, "qk_matmul_output_mode", int64_t{kProbabilities});
}

}  // namespace

std::string BuildModel(const ModelSpec& spec) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.add_opset_import()->set_version(spec.opset);
  auto* graph = model.mutable_graph();
  graph->set_name("attention");
  auto* node = graph->add_node();
  node->set_op_type("Attention");
  AddInputs(spec, graph, node);
  AddOutputs(spec, graph, node);
  AddAttribute(node, "scale", spec.scale);
  if (spec.causal) AddAttribute(node, "is_causal", int64_t{1});
  return model.SerializeAsString();
}

}  // namespace attest::ort
