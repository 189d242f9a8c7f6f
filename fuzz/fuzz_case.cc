// Our own attack surface: whatever stands in a case file, a contract, an ONNX vector, a worker's reply
// or a file of waivers, the parser neither crashes nor hangs nor takes memory without bound, and what
// it accepts is printed and parsed back to the same. The first byte of an input chooses the parser, by
// its letter: c(ase), k(ontract), t(ensor), v(ector), r(eply), w(aivers).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "fuzz/status.h"
#include "impl/attention/contract.h"
#include "impl/attention/contract_json.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/toml.h"
#include "properties/harness/report/waivers.h"
#include "properties/harness/sandbox/protocol.h"
#include "properties/harness/vectors/attention_node.h"
#include "properties/harness/vectors/tensor_file.h"
#include "properties/harness/vectors/translate.h"

namespace attest {
namespace {

// An error is one line for a person: never empty, never two.
void DemandOneLine(const std::string& error) {
  if (!error.empty() && error.find('\n') == error.npos) return;
  fmt::print(stderr, "fuzz: an error that is no line: '{}'\n", error);
  std::abort();
}

void Demand(bool holds, std::string_view what, std::string_view text) {
  if (holds) return;
  fmt::print(stderr, "fuzz: {}:\n{}\n", what, text);
  std::abort();
}

// --- Case files ---

// Data of more elements take seconds to make; the sizes have a limit of their own in the parser.
bool IsSmall(const Problem& p) {
  constexpr double kMost = 1 << 16;
  double elements = 0;
  for (const Shape4& shape : {p.QShape(), p.KShape(), p.VShape(), p.WeightsShape()}) {
    elements += static_cast<double>(ElementCount(shape));
  }
  return elements < kMost;
}

// The hash in a file asks for its data, however large; without it the sizes are read for nothing.
std::string WithoutHashes(std::string text) {
  constexpr std::string_view kHash = "hash";
  for (size_t at = text.find(kHash); at != text.npos; at = text.find(kHash, at + 1)) text[at] = '#';
  return text;
}

void DemandRoundTrip(const CaseFile& file) {
  const std::string printed = ToToml(file);
  const auto again = ParseToml(printed, "printed");
  Demand(again.has_value(), again ? "" : again.error(), printed);
  Demand(SameCase(again->c, file.c), "a case printed and parsed is another", printed);
  Demand(ToToml(*again) == printed, "a case printed twice reads otherwise", printed);
}

void TestCaseFile(const std::string& text) {
  const auto sizes = ParseToml(WithoutHashes(text), "input");
  if (!sizes) return DemandOneLine(sizes.error());
  if (!IsSmall(sizes->c.problem)) return;
  const auto file = ParseToml(text, "input");
  if (!file) return DemandOneLine(file.error());
  DemandRoundTrip(*file);
}

// --- Contracts ---

void TestContract(const std::string& text) {
  const auto contract = ParseContract(text);
  if (!contract) return DemandOneLine(contract.error());
  const std::string printed = ContractJson(*contract);
  const auto again = ParseContract(printed);
  Demand(again.has_value(), again ? "" : again.error(), printed);
  Demand(CountDifferences(*contract, *again) == 0, "a contract printed and parsed is another",
         printed);
}

// --- ONNX ---

void TestTensor(const std::string& bytes) {
  const auto tensor = ParseTensor(bytes, "input");
  if (!tensor) DemandOneLine(tensor.error());
}

// Parts with their length before them in two bytes: the model, then tensors.
std::vector<std::string> SplitParts(std::string_view bytes) {
  std::vector<std::string> parts;
  while (bytes.size() >= 2) {
    const size_t wanted = static_cast<uint8_t>(bytes[0]) + 256u * static_cast<uint8_t>(bytes[1]);
    bytes.remove_prefix(2);
    const size_t size = std::min(wanted, bytes.size());
    parts.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return parts;
}

void TestVector(const std::string& bytes) {
  const std::vector<std::string> parts = SplitParts(bytes);
  if (parts.empty()) return;
  const auto node = ParseAttentionNode(parts[0], "model");
  if (!node) return DemandOneLine(node.error());
  if (!node->unsupported.empty() || parts.size() < 2) return;
  const int last_input = std::max({node->q, node->k, node->v, node->attn_mask, node->past_key,
                                   node->past_value, node->key_lengths});
  const int last_output =
      std::max({node->out, node->present_key, node->present_value, node->qk_matmul_output});
  std::vector<OnnxTensor> tensors;
  for (int i = 0; i <= last_input + last_output + 1; ++i) {
    auto tensor = ParseTensor(parts[1 + static_cast<size_t>(i) % (parts.size() - 1)], "tensor");
    if (!tensor) return DemandOneLine(tensor.error());
    tensors.push_back(std::move(*tensor));
  }
  const std::vector<OnnxTensor> inputs(tensors.begin(), tensors.begin() + last_input + 1);
  const std::vector<OnnxTensor> outputs(tensors.begin() + last_input + 1, tensors.end());
  VectorCase vector;
  const auto done = Translate(*node, inputs, outputs, &vector);
  if (!done) return DemandOneLine(done.error());
  if (vector.unsupported.empty() && IsSmall(vector.c.problem)) {
    DemandRoundTrip({vector.c, {}, {}, {}});
  }
}

// --- Replies of workers, waivers ---

void TestReply(const std::string& line) {
  const auto load = ParseLoadReply(line, 1);
  if (load && !ParseContract(load->contract_json)) return;
  const auto map = ParseMapReply(line, 1, 2);
  if (map) Demand(map->size() == 2, "another number of addresses", line);
  const auto call = ParseCallReply(line, 1, 0, 3);
  if (!call) Demand(!call.error().empty(), "no error", line);
  if (call) Demand(call->through < 3, "a reply to a call that was not made", line);
}

void TestWaivers(const std::string& text) {
  const auto waivers = ParseWaivers(text, "input");
  if (!waivers) DemandOneLine(waivers.error());
}

struct Parser {
  char letter;
  void (*test)(const std::string&);
};
constexpr std::array<Parser, 6> kParsers = {{{'c', TestCaseFile},
                                             {'k', TestContract},
                                             {'t', TestTensor},
                                             {'v', TestVector},
                                             {'r', TestReply},
                                             {'w', TestWaivers}}};

}  // namespace
}  // namespace attest

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attest::CountExecution();
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const attest::Parser& parser : attest::kParsers) {
    if (static_cast<char>(data[0]) == parser.letter) parser.test(text);
  }
  return 0;
}
