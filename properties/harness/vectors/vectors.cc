#include "properties/harness/vectors/vectors.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/vectors/attention_node.h"
#include "properties/harness/vectors/tensor_file.h"
#include "properties/harness/vectors/translate.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr char kModelFile[] = "model.onnx";
constexpr char kDataSetPrefix[] = "test_data_set_";

template <typename T>
using Result = tl::expected<T, std::string>;

// The folders in `dir`, sorted by name.
Result<std::vector<fs::path>> FoldersIn(const fs::path& dir) {
  std::error_code error;
  std::vector<fs::path> folders;
  fs::directory_iterator entries(dir, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code no_folder;
    if (entries->is_directory(no_folder)) folders.push_back(entries->path());
  }
  if (error) return tl::unexpected(fmt::format("{}: {}", dir.string(), error.message()));
  std::sort(folders.begin(), folders.end());
  return folders;
}

bool IsTestFolder(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kModelFile, error);
}

// Reads PREFIX_0.pb, PREFIX_1.pb, ... up to the highest number that the node needs.
Result<std::vector<OnnxTensor>> ReadTensors(const fs::path& data_set, const char* prefix,
                                            int highest) {
  std::vector<OnnxTensor> tensors;
  for (int i = 0; i <= highest; ++i) {
    auto tensor = ReadTensorFile(data_set / fmt::format("{}_{}.pb", prefix, i));
    if (!tensor) return tl::unexpected(std::move(tensor).error());
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

Result<VectorCase> ReadDataSet(const std::string& name, const AttentionNode& node,
                               const fs::path& data_set) {
  const int last_input = std::max(
      {node.q, node.k, node.v, node.attn_mask, node.past_key, node.past_value, node.key_lengths});
  const auto inputs = ReadTensors(data_set, "input", last_input);
  if (!inputs) return tl::unexpected(inputs.error());
  const int last_output =
      std::max({node.out, node.present_key, node.present_value, node.qk_matmul_output});
  const auto outputs = ReadTensors(data_set, "output", last_output);
  if (!outputs) return tl::unexpected(outputs.error());
  VectorCase vector;
  vector.name = name;
  const auto translated = Translate(node, *inputs, *outputs, &vector);
  if (!translated) {
    return tl::unexpected(fmt::format("{}: {}", data_set.string(), translated.error()));
  }
  return vector;
}

VectorCase NotSupported(std::string name, std::vector<std::string> reasons) {
  VectorCase vector;
  vector.name = std::move(name);
  vector.unsupported = std::move(reasons);
  return vector;
}

Result<std::vector<VectorCase>> ReadTestFolder(const fs::path& folder) {
  std::error_code error;
  const std::string name = fs::absolute(folder, error).lexically_normal().filename().string();
  const auto node = ReadAttentionNode(folder / kModelFile);
  if (!node) return tl::unexpected(node.error());
  if (!node->unsupported.empty()) return std::vector{NotSupported(name, node->unsupported)};
  const auto data_sets = FoldersIn(folder);
  if (!data_sets) return tl::unexpected(data_sets.error());
  std::vector<VectorCase> vectors;
  for (const fs::path& data_set : *data_sets) {
    const std::string set_name = data_set.filename().string();
    if (set_name.rfind(kDataSetPrefix, 0) != 0) continue;
    const bool first = set_name == std::string(kDataSetPrefix) + "0";
    auto vector = ReadDataSet(first ? name : fmt::format("{}/{}", name, set_name), *node, data_set);
    if (!vector) return tl::unexpected(std::move(vector).error());
    vectors.push_back(std::move(*vector));
  }
  if (vectors.empty()) vectors.push_back(NotSupported(name, {"no stored data"}));
  return vectors;
}

}  // namespace

tl::expected<std::vector<VectorCase>, std::string> ReadVectors(const std::string& dir) {
  // Without a trailing slash, so that the last part is the folder's name.
  fs::path root = fs::path(dir).lexically_normal();
  if (!root.has_filename() && root.has_relative_path()) root = root.parent_path();
  auto folders = FoldersIn(root);
  if (!folders) return tl::unexpected(std::move(folders).error());
  if (IsTestFolder(root)) folders = std::vector{root};
  std::vector<VectorCase> vectors;
  for (const fs::path& folder : *folders) {
    if (!IsTestFolder(folder)) continue;  // a folder of something else
    auto read = ReadTestFolder(folder);
    if (!read) return tl::unexpected(std::move(read).error());
    std::move(read->begin(), read->end(), std::back_inserter(vectors));
  }
  if (vectors.empty()) {
    return tl::unexpected(fmt::format("{}: no ONNX test folder here (folders with {} and {}0)", dir,
                                      kModelFile, kDataSetPrefix));
  }
  return vectors;
}

}  // namespace attest
