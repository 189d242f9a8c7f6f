#include "properties/harness/vectors/attention_node.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "properties/harness/vectors/tensor_file.h"

namespace attest {
namespace {

constexpr int64_t kFirstOpset = 23;   // the first with Attention
constexpr int64_t kWindowOpset = 25;  // the first with window sizes, and the last known here
constexpr int64_t kOutputModes = 4;   // of qk_matmul_output

// The operator's inputs and outputs by position.
enum InputPosition { kQ, kK, kV, kAttnMask, kPastKey, kPastValue, kKeyLengths, kInputCount };
enum OutputPosition { kY, kPresentKey, kPresentValue, kQkMatmul, kOutputCount };

// A name out of a file in an error of one line: shortened, control characters as spaces.
std::string Shown(std::string name) {
  constexpr size_t kMost = 80;
  if (name.size() > kMost) name = name.substr(0, kMost) + "...";
  std::ranges::replace_if(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return name;
}

bool IsOnnxDomain(const std::string& domain) {
  return domain.empty() || domain == "ai.onnx";
}

int64_t OpsetOf(const onnx::ModelProto& model) {
  for (const auto& opset : model.opset_import()) {
    if (IsOnnxDomain(opset.domain())) return opset.version();
  }
  return 0;
}

bool HasType(const onnx::AttributeProto& attribute, std::string_view name,
             onnx::AttributeProto::AttributeType type) {
  return attribute.name() == name && attribute.type() == type;
}

std::optional<int64_t> WindowSide(int64_t size) {
  return size < 0 ? std::nullopt : std::optional(size);
}

// Takes one attribute in; false where it is unknown or of an unexpected type.
bool ReadKnownAttribute(const onnx::AttributeProto& attribute, AttentionNode* node,
                        int64_t* output_mode) {
  if (HasType(attribute, "scale", onnx::AttributeProto::FLOAT)) {
    node->scale = attribute.f();
    return true;
  }
  if (HasType(attribute, "softcap", onnx::AttributeProto::FLOAT)) {
    // The function body caps by a negative number, the reference implementation ignores it.
    if (!(attribute.f() >= 0))
      node->unsupported.push_back(fmt::format("softcap {}", attribute.f()));
    node->softcap = attribute.f();
    return true;
  }
  if (attribute.type() != onnx::AttributeProto::INT) return false;
  const std::string& name = attribute.name();
  const int64_t value = attribute.i();
  if (name == "is_causal") {
    node->causal = value != 0;
  } else if (name == "q_num_heads") {
    node->q_num_heads = value;
  } else if (name == "kv_num_heads") {
    node->kv_num_heads = value;
  } else if (name == "qk_matmul_output_mode") {
    *output_mode = value;
  } else if (name == "softmax_precision") {
    node->softmax_precision = value;
  } else if (name == "left_window_size" && node->opset >= kWindowOpset) {
    node->left_window = WindowSide(value);
  } else if (name == "right_window_size" && node->opset >= kWindowOpset) {
    node->right_window = WindowSide(value);
  } else {
    return false;
  }
  return true;
}

void ReadAttributes(const onnx::NodeProto& proto, AttentionNode* node) {
  int64_t output_mode = 0;
  for (const auto& attribute : proto.attribute()) {
    if (!ReadKnownAttribute(attribute, node, &output_mode)) {
      node->unsupported.push_back(fmt::format("attribute {}", Shown(attribute.name())));
    }
  }
  if (node->qk_matmul_output < 0) return;  // the mode matters to that output alone
  if (output_mode < 0 || output_mode >= kOutputModes) {
    node->unsupported.push_back(fmt::format("qk_matmul_output in mode {}", output_mode));
    return;
  }
  node->scores = static_cast<ScoreMode>(output_mode);
}

// Finds `name` among the graph's values; an empty name is an absent tensor (-1).
template <typename Values>
tl::expected<int, std::string> Find(const Values& values, const std::string& name) {
  if (name.empty()) return -1;
  for (int i = 0; i < values.size(); ++i) {
    if (values[i].name() == name) return i;
  }
  return tl::unexpected(
      fmt::format("the node's \"{}\" is neither an input nor an output of the graph", Shown(name)));
}

// Where each of the node's first `kCount` names stands among `values`.
template <size_t kCount, typename Names, typename Values>
tl::expected<std::array<int, kCount>, std::string> Locate(const Names& names,
                                                          const Values& values) {
  std::array<int, kCount> positions;
  positions.fill(-1);
  if (names.size() > static_cast<int>(kCount)) {
    return tl::unexpected(fmt::format("the node has {} tensors where the operator has at most {}",
                                      names.size(), kCount));
  }
  for (int i = 0; i < names.size(); ++i) {
    const auto found = Find(values, names[i]);
    if (!found) return tl::unexpected(found.error());
    positions[static_cast<size_t>(i)] = *found;
  }
  return positions;
}

tl::expected<void, std::string> ReadWiring(const onnx::GraphProto& graph, AttentionNode* node) {
  const auto inputs = Locate<kInputCount>(graph.node(0).input(), graph.input());
  if (!inputs) return tl::unexpected(inputs.error());
  const auto outputs = Locate<kOutputCount>(graph.node(0).output(), graph.output());
  if (!outputs) return tl::unexpected(outputs.error());
  node->q = (*inputs)[kQ];
  node->k = (*inputs)[kK];
  node->v = (*inputs)[kV];
  node->attn_mask = (*inputs)[kAttnMask];
  node->past_key = (*inputs)[kPastKey];
  node->past_value = (*inputs)[kPastValue];
  node->key_lengths = (*inputs)[kKeyLengths];
  node->out = (*outputs)[kY];
  node->present_key = (*outputs)[kPresentKey];
  node->present_value = (*outputs)[kPresentValue];
  node->qk_matmul_output = (*outputs)[kQkMatmul];
  if (node->q < 0 || node->k < 0 || node->v < 0 || node->out < 0) {
    return tl::unexpected(std::string("the node lacks Q, K, V or Y"));
  }
  if ((node->past_key < 0) != (node->past_value < 0)) {
    return tl::unexpected(std::string("the node has one of past_key and past_value"));
  }
  if (node->past_key >= 0 && node->key_lengths >= 0) {
    node->unsupported.emplace_back("past_key beside nonpad_kv_seqlen, which the standard forbids");
  }
  return {};
}

// Why the model is not a single Attention node fed by the graph's inputs; empty = it is.
std::string WhyNotAttention(const onnx::ModelProto& model) {
  const auto& graph = model.graph();
  if (graph.node_size() != 1) {
    return fmt::format("a graph of {} nodes, not one Attention", graph.node_size());
  }
  const auto& node = graph.node(0);
  if (node.op_type() != "Attention" || !IsOnnxDomain(node.domain())) {
    return fmt::format("operator {}", Shown(node.op_type()));
  }
  if (graph.initializer_size() + graph.sparse_initializer_size() != 0) {
    return "initializers in the graph";
  }
  const int64_t opset = OpsetOf(model);
  if (opset < kFirstOpset || opset > kWindowOpset) {
    return fmt::format("opset {}; {} to {} are known", opset, kFirstOpset, kWindowOpset);
  }
  return "";
}

}  // namespace

tl::expected<AttentionNode, std::string> ReadAttentionNode(const std::filesystem::path& path) {
  const auto bytes = ReadBytes(path);
  if (!bytes) return tl::unexpected(bytes.error());
  return ParseAttentionNode(*bytes, path.string());
}

tl::expected<AttentionNode, std::string> ParseAttentionNode(const std::string& bytes,
                                                            const std::string& where) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes) || model.graph().node_size() == 0) {
    return tl::unexpected(where + ": not an ONNX model with a node");
  }
  AttentionNode node;
  node.opset = OpsetOf(model);
  if (std::string reason = WhyNotAttention(model); !reason.empty()) {
    node.unsupported.push_back(std::move(reason));
    return node;
  }
  if (const auto wired = ReadWiring(model.graph(), &node); !wired) {
    return tl::unexpected(where + ": " + wired.error());
  }
  ReadAttributes(model.graph().node(0), &node);
  return node;
}

}  // namespace attest
