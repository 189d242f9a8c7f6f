#include "impl/adapters/onnxruntime/model.h"

#include <onnx/onnx_pb.h>

namespace attest::ort {
namespace {

constexpr int kIrVersion = 10;      // accepted by every runtime that has the operators
constexpr int kContribVersion = 1;  // of every operator in com.microsoft

// Adds the tensors of one side to the node, an empty name for an absent one, and declares those that
// are there. Trailing absent ones are left out. Not even the rank is declared: from open sizes the
// shape inference of Attention (onnx 1.19) makes a kv_len of 0 for the weights.
template <typename AddName, typename Declare>
void AddTensors(const std::vector<Tensor>& tensors, AddName&& add_name, Declare&& declare) {
  size_t count = tensors.size();
  while (count > 0 && !tensors[count - 1].is_present()) --count;
  for (size_t n = 0; n < count; ++n) {
    add_name(tensors[n].name);
    if (!tensors[n].is_present()) continue;
    onnx::ValueInfoProto* value = declare();
    value->set_name(tensors[n].name);
    value->mutable_type()->mutable_tensor_type()->set_elem_type(
        static_cast<int32_t>(tensors[n].type));
  }
}

void AddAttribute(const Attribute& attribute, onnx::NodeProto* node) {
  auto* target = node->add_attribute();
  target->set_name(attribute.name);
  if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    target->set_type(onnx::AttributeProto::INT);
    target->set_i(*integer);
  } else {
    target->set_type(onnx::AttributeProto::FLOAT);
    target->set_f(std::get<float>(attribute.value));
  }
}

void AddOpset(const char* domain, int version, onnx::ModelProto* model) {
  auto* opset = model->add_opset_import();
  opset->set_domain(domain);
  opset->set_version(version);
}

}  // namespace

std::string BuildModel(const OnnxCall& call) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  AddOpset("", call.opset, &model);
  if (*call.domain != '\0') AddOpset(call.domain, kContribVersion, &model);
  auto* graph = model.mutable_graph();
  graph->set_name("attention");
  auto* node = graph->add_node();
  node->set_op_type(call.op);
  node->set_domain(call.domain);
  AddTensors(
      call.inputs, [&](const char* name) { node->add_input(name); },
      [&] { return graph->add_input(); });
  AddTensors(
      call.outputs, [&](const char* name) { node->add_output(name); },
      [&] { return graph->add_output(); });
  for (const Attribute& attribute : call.attributes) AddAttribute(attribute, node);
  return model.SerializeAsString();
}

}  // namespace attest::ort
