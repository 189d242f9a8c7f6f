// TOML text to a case. Total: any text gives a valid case or one line that says what is wrong
// where.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "properties/harness/case/offers.h"
#include "properties/harness/case/toml_parser.h"

namespace attest {
namespace {

// What a file says to no effect is a mistake of its author's. One line, as Validate's.
std::optional<std::string> IdleField(const Problem& p) {
  if (p.prefix_lengths && !p.causal) {
    return "prefix_lengths say nothing without causal = true; leave them out";
  }
  if (!p.diagonal_offset.empty() && !LooksAtDiagonal(p)) {
    return "diagonal_offset says nothing without causal, window or alibi_slopes; leave it out";
  }
  if (p.bias_dtype && !p.bias) return "bias_dtype says nothing without [bias]; leave it out";
  return std::nullopt;
}

}  // namespace

void CaseParser::ReadHead(const toml::table& root) {
  reader_.CheckKeys(
      root, "a case file",
      {"version", "property", "kernel", "finding", "origin", "problem", "mask", "bias", "documents",
       "block_mask", "dropout", "data", "literals", "layout", "storage", "before"});
  reader_.Integer(root, "version", true, 1, 1);
  file_.property = reader_.String(root, "property", false);
  file_.kernel = reader_.String(root, "kernel", false);
  file_.finding = reader_.String(root, "finding", false);
  file_.c.origin = reader_.String(root, "origin", false).value_or("");
}

void CaseParser::ReadSeed(const toml::table& data) {
  const toml::node* node = data.get("seed");
  if (node == nullptr || !reader_.ok()) return;
  uint64_t& seed = file_.c.recipe.seed;
  if (const auto* text = node->as_string()) {
    const std::string& digits = text->get();
    const char* end = digits.data() + digits.size();
    const bool hex = digits.size() > 2 && digits.compare(0, 2, "0x") == 0;
    const auto result = std::from_chars(digits.data() + (hex ? 2 : 0), end, seed, 16);
    if (hex && result.ec == std::errc() && result.ptr == end) return;
    return reader_.FailAt(*node, "seed must be an integer or a string \"0x...\" of 64 bits");
  }
  seed = static_cast<uint64_t>(reader_.IntegerIn(*node, "seed", 0, INT64_MAX));
}

void CaseParser::ReadOverride(const toml::node& node) {
  const toml::array* items = node.as_array();
  const auto* name = items != nullptr && items->size() == 6 ? items->get(0)->as_string() : nullptr;
  if (name == nullptr) {
    return reader_.FailAt(node, "set takes [tensor, batch, head, position, lane, value]");
  }
  Override o;
  bool known = false;
  for (const DataTensor tensor : kDataTensors) {
    if (Name(tensor) == name->get()) {
      o.tensor = tensor;
      known = true;
    }
  }
  if (!known)
    return reader_.FailAt(node,
                          fmt::format("set: \"{}\" is not q, k, v, bias or dout", name->get()));
  for (size_t axis = 0; axis < 4; ++axis) {
    o.index[axis] = reader_.IntegerIn(*items->get(axis + 1), "set: index", 0, kMaxTomlSize);
  }
  o.value = reader_.DoubleIn(*items->get(5), "set: value");
  file_.c.overrides.push_back(o);
}

void CaseParser::ReadOverrides(const toml::table& data) {
  const toml::array* set = reader_.ArrayAt(data, "set", false);
  if (set == nullptr) return;
  for (const toml::node& node : *set) ReadOverride(node);
}

void CaseParser::ReadData(const toml::table& root) {
  const toml::table* data = reader_.Table(root, "data", false);
  if (data == nullptr) return;
  reader_.CheckKeys(*data, "[data]",
                    {"scores", "values", "bias", "dout", "seed", "recipe_version", "hash", "set"});
  Recipe& recipe = file_.c.recipe;
  ReadWord(*data, "scores", ParseScoreFamily, recipe.scores);
  ReadWord(*data, "values", ParseValueFamily, recipe.values);
  ReadWord(*data, "bias", ParseBiasFamily, recipe.bias);
  ReadWord(*data, "dout", ParseValueFamily, recipe.dout);
  ReadSeed(*data);
  const auto version = reader_.Integer(*data, "recipe_version", false, 1, INT64_MAX);
  if (version && *version != kRecipeVersion) {
    reader_.FailAt(*data->get("recipe_version"),
                   fmt::format("recipe_version = {}, but this build makes the data of version {}; "
                               "use the build that wrote the case",
                               *version, kRecipeVersion));
  }
  ReadOverrides(*data);
}

// One level of nested arrays; depth 4 is a number.
void CaseParser::ReadLevel(const toml::node& node, std::string_view name, size_t depth,
                           Array& array) {
  if (!reader_.ok()) return;
  if (depth == 4) {
    array.values.push_back(reader_.DoubleIn(node, name));
    return;
  }
  const toml::array* level = node.as_array();
  if (level == nullptr || static_cast<int64_t>(level->size()) != array.shape[depth]) {
    return reader_.FailAt(
        node, fmt::format("{}: level {} must be an array of {}", name, depth, array.shape[depth]));
  }
  for (const toml::node& inner : *level) ReadLevel(inner, name, depth + 1, array);
}

void CaseParser::ReadLiterals(const toml::table& root) {
  const toml::table* table = reader_.Table(root, "literals", false);
  if (table == nullptr) return;
  reader_.CheckKeys(*table, "[literals]", {"q", "k", "v", "bias", "dout"});
  const Problem& p = file_.c.problem;
  const std::pair<DataTensor, Shape4> tensors[] = {
      {DataTensor::kQ, p.QShape()},
      {DataTensor::kK, p.KShape()},
      {DataTensor::kV, p.VShape()},
      {DataTensor::kBias, p.bias ? p.bias->shape : Shape4{0, 0, 0, 0}},
      {DataTensor::kDout, p.want_gradients ? p.OutShape() : Shape4{0, 0, 0, 0}}};
  for (const auto& [tensor, shape] : tensors) {
    const toml::array* values = reader_.ArrayAt(*table, Name(tensor), false);
    if (values == nullptr) continue;
    Array array;
    array.shape = shape;
    ReadLevel(*values, fmt::format("literals.{}", Name(tensor)), 0, array);
    file_.c.literals.emplace(tensor, std::move(array));
  }
}

void CaseParser::ReadLayout(const toml::table& root) {
  const toml::table* table = reader_.Table(root, "layout", false);
  if (table == nullptr) return;
  reader_.CheckKeys(*table, "[layout]", {"q", "k", "v", "out", "placement"});
  Layouts& layouts = file_.c.layouts;
  ReadWord(*table, "q", ParseLayout, layouts.q);
  ReadWord(*table, "k", ParseLayout, layouts.k);
  ReadWord(*table, "v", ParseLayout, layouts.v);
  ReadWord(*table, "out", ParseLayout, layouts.out);
  const auto parse_placement = [](std::string_view word) -> std::optional<Placement> {
    if (word == "end") return Placement::kEnd;
    if (word == "begin") return Placement::kBegin;
    return std::nullopt;
  };
  ReadWord(*table, "placement", parse_placement, file_.c.placement);
}

void CaseParser::ReadStorage(const toml::table& root) {
  const toml::table* table = reader_.Table(root, "storage", false);
  if (table == nullptr) return;
  reader_.CheckKeys(*table, "[storage]",
                    {"past", "without_present", "first_call", "page_size", "ring", "packed"});
  Storage& storage = file_.c.storage;
  storage.past = reader_.Integer(*table, "past", false, 0, kMaxTomlSize).value_or(0);
  storage.page_size = reader_.Integer(*table, "page_size", false, 0, kMaxTomlSize).value_or(0);
  storage.without_present = reader_.Bool(*table, "without_present");
  ReadWord(*table, "first_call", ParseFirstCall, storage.first_call);
  storage.ring = reader_.Bool(*table, "ring");
  storage.packed = reader_.Bool(*table, "packed");
}

// The line that a message of Validate is about: messages begin with the field's name, perhaps after
// its section's ("literals.k", "window.left").
uint32_t CaseParser::LineOf(const toml::table& root, const std::string& message) {
  const std::string field = message.substr(0, message.find_first_of(" :["));
  const toml::node* at = nullptr;
  for (const std::string& path :
       {field, "problem." + field, "data." + field, field.substr(0, field.find('.'))}) {
    if (at == nullptr) at = root.at_path(path).node();
  }
  if (at == nullptr) at = root.get("problem");
  return at == nullptr ? 0 : static_cast<uint32_t>(at->source().begin.line);
}

void CaseParser::CheckCase(const toml::table& root) {
  if (!reader_.ok()) return;
  if (const auto error = Validate(file_.c)) return reader_.Fail(LineOf(root, *error), *error);
  if (const auto error = IdleField(file_.c.problem)) reader_.Fail(LineOf(root, *error), *error);
}

void CaseParser::CheckHash(const toml::table& root) {
  const toml::table* data = reader_.Table(root, "data", false);
  const auto hash = data == nullptr ? std::nullopt : reader_.String(*data, "hash", false);
  if (!hash || !reader_.ok()) return;
  const std::string made = fmt::format("0x{:016x}", HashInputs(Materialise(file_.c)));
  if (*hash != made) {
    reader_.FailAt(*data->get("hash"),
                   fmt::format("hash = {}, but this build makes data with {}; after an edit by "
                               "hand, leave the line out",
                               *hash, made));
  }
}

tl::expected<CaseFile, std::string> CaseParser::Parse(const toml::table& root) {
  ReadHead(root);
  ReadProblem(root);
  if (reader_.ok()) ReadPlanes(root);
  ReadData(root);
  ReadLiterals(root);
  ReadLayout(root);
  ReadStorage(root);
  CheckCase(root);
  CheckHash(root);
  if (!reader_.ok()) return tl::unexpected(reader_.error());
  if (auto read = ReadBefore(root); !read) return tl::unexpected(read.error());
  return file_;
}

tl::expected<void, std::string> CaseParser::ReadBefore(const toml::table& root) {
  const toml::array* calls = reader_.ArrayAt(root, "before", false);
  for (size_t n = 0; calls != nullptr && n < calls->size(); ++n) {
    const toml::table* table = calls->get(n)->as_table();
    if (table == nullptr || table->contains("before")) {
      reader_.FailAt(*calls->get(n), "before must be a list of cases, [[before]], each by itself");
      break;
    }
    auto call = CaseParser(path_).Parse(*table);
    if (!call) return tl::unexpected(call.error());
    file_.before.push_back(std::move(call->c));
  }
  if (!reader_.ok()) return tl::unexpected(reader_.error());
  return {};
}

tl::expected<CaseFile, std::string> ParseToml(std::string_view text, std::string_view path) {
  const auto root = ParseTable(text, path);
  if (!root) return tl::unexpected(root.error());
  return CaseParser(path).Parse(*root);
}

tl::expected<CaseFile, std::string> ReadCaseFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  // A folder opens, but reading from it sets badbit.
  constexpr int64_t kMostBytes = int64_t{64} << 20;  // far above any case, far below memory
  std::array<char, 64 * 1024> chunk;
  for (int64_t left = kMostBytes; in; left -= in.gcount()) {
    if (left < 0) {
      return tl::unexpected(fmt::format("{}: larger than 64 MiB; name a case file", path));
    }
    in.read(chunk.data(), chunk.size());
    text.write(chunk.data(), in.gcount());
  }
  if (!in.is_open() || in.bad()) {
    return tl::unexpected(
        fmt::format("{}: cannot read: {}; name a case file", path, std::strerror(errno)));
  }
  return ParseToml(text.str(), path);
}

}  // namespace attest
