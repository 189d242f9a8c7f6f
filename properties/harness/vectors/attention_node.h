// What a backend test's model.onnx says: the attributes of its Attention node and which tensors are
// wired to it.
#ifndef ATTEST_HARNESS_VECTORS_ATTENTION_NODE_H_
#define ATTEST_HARNESS_VECTORS_ATTENTION_NODE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/problem.h"

namespace attest {

struct AttentionNode {
  std::vector<std::string> unsupported;  // what the node asks for that no Problem holds

  int64_t opset = 0;  // 23 to 25 where nothing is unsupported
  bool causal = false;
  std::optional<double> scale;
  int64_t q_num_heads = 0;  // 0 = not given: the tensors are 4-D
  int64_t kv_num_heads = 0;
  std::optional<int64_t> left_window;  // opset 25
  std::optional<int64_t> right_window;
  double softcap = 0;                        // 0 = none
  std::optional<int64_t> softmax_precision;  // ONNX's number of a type, not looked at yet
  std::optional<ScoreMode> scores;           // what qk_matmul_output holds; nullopt = absent

  // Positions among the graph's inputs, which are the numbers of the input_N.pb files; likewise for
  // outputs. -1 = absent.
  int q = -1, k = -1, v = -1, attn_mask = -1, past_key = -1, past_value = -1, key_lengths = -1;
  int out = -1, present_key = -1, present_value = -1, qk_matmul_output = -1;
};

// Reads a model file. The error is one line: a file that is no model, or one without a node. A
// model that is not one Attention node comes back as unsupported.
tl::expected<AttentionNode, std::string> ReadAttentionNode(const std::filesystem::path& path);

// The same of a file's bytes; `where` opens the error.
tl::expected<AttentionNode, std::string> ParseAttentionNode(const std::string& bytes,
                                                            const std::string& where);

}  // namespace attest

#endif  // ATTEST_HARNESS_VECTORS_ATTENTION_NODE_H_
