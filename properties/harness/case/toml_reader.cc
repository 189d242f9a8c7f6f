#include "properties/harness/case/toml_reader.h"

#include <algorithm>

#include <fmt/format.h>

namespace attest {
namespace {

// The first line with a dotted key of absurd depth, or 0. The library follows such keys by
// recursion, and some ten thousand parts end its stack.
uint32_t LineOfEndlessKey(std::string_view text) {
  constexpr int kMaxDots = 1000;
  uint32_t line = 1;
  int dots = 0;
  for (const char c : text) {
    if (c == '\n') ++line;
    // Whatever separates values starts the count anew; blanks may stand around the dots of a key.
    if (c == '\n' || c == ',' || c == '=') dots = 0;
    if (c == '.' && ++dots > kMaxDots) return line;
  }
  return 0;
}

}  // namespace

tl::expected<toml::table, std::string> ParseTable(std::string_view text, std::string_view path) {
  if (const uint32_t line = LineOfEndlessKey(text); line > 0) {
    return tl::unexpected(
        fmt::format("{}:{}: a key of more than 1000 parts: name it in fewer", path, line));
  }
  try {  // the library reports by exception; here is where that ends
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const toml::source_position& at = error.source().begin;
    TomlReader reader(path);
    reader.Fail(at.line, fmt::format("column {}: is no TOML: {}: mend the quotes, brackets or "
                                     "commas there",
                                     at.column, error.description()));
    return tl::unexpected(reader.error());
  }
}

void TomlReader::Fail(uint32_t line, const std::string& message) {
  if (!error_.empty()) return;
  error_ = line == 0 ? fmt::format("{}: {}", path_, message)
                     : fmt::format("{}:{}: {}", path_, line, message);
  // What stands in the file may be quoted in it; an error is one line all the same.
  std::ranges::replace_if(
      error_, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
}

void TomlReader::FailAt(const toml::node& node, const std::string& message) {
  Fail(static_cast<uint32_t>(node.source().begin.line), message);
}

void TomlReader::CheckKeys(const toml::table& table, std::string_view where,
                           std::initializer_list<std::string_view> known) {
  for (const auto& [key, node] : table) {
    if (std::ranges::find(known, key.str()) != known.end()) continue;
    FailAt(node, fmt::format("unknown key \"{}\" in {}; known are {}", key.str(), where,
                             fmt::join(known, ", ")));
  }
}

const toml::node* TomlReader::Find(const toml::table& parent, std::string_view key, bool required) {
  if (!ok()) return nullptr;
  const toml::node* node = parent.get(key);
  if (node == nullptr && required) FailAt(parent, fmt::format("{} is missing", key));
  return node;
}

const toml::table* TomlReader::Table(const toml::table& parent, std::string_view key,
                                     bool required) {
  const toml::node* node = Find(parent, key, required);
  if (node != nullptr && !node->is_table()) FailAt(*node, fmt::format("{} must be a table", key));
  return node != nullptr && ok() ? node->as_table() : nullptr;
}

const toml::array* TomlReader::ArrayAt(const toml::table& parent, std::string_view key,
                                       bool required) {
  const toml::node* node = Find(parent, key, required);
  if (node != nullptr && !node->is_array()) FailAt(*node, fmt::format("{} must be an array", key));
  return node != nullptr && ok() ? node->as_array() : nullptr;
}

std::optional<std::string> TomlReader::String(const toml::table& parent, std::string_view key,
                                              bool required) {
  const toml::node* node = Find(parent, key, required);
  if (node == nullptr) return std::nullopt;
  if (const auto* text = node->as_string()) return text->get();
  FailAt(*node, fmt::format("{} must be a string", key));
  return std::nullopt;
}

std::optional<int64_t> TomlReader::Integer(const toml::table& parent, std::string_view key,
                                           bool required, int64_t least, int64_t most) {
  const toml::node* node = Find(parent, key, required);
  if (node == nullptr) return std::nullopt;
  return IntegerIn(*node, key, least, most);
}

std::optional<double> TomlReader::Double(const toml::table& parent, std::string_view key) {
  const toml::node* node = Find(parent, key, false);
  if (node == nullptr) return std::nullopt;
  return DoubleIn(*node, key);
}

bool TomlReader::Bool(const toml::table& parent, std::string_view key) {
  const toml::node* node = Find(parent, key, false);
  if (node == nullptr) return false;
  if (const auto* value = node->as_boolean()) return value->get();
  FailAt(*node, fmt::format("{} must be true or false", key));
  return false;
}

int64_t TomlReader::IntegerIn(const toml::node& node, std::string_view what, int64_t least,
                              int64_t most) {
  const auto* value = node.as_integer();
  if (value == nullptr) {
    FailAt(node, fmt::format("{} must be an integer", what));
    return least;
  }
  if (value->get() < least || value->get() > most) {
    FailAt(node, fmt::format("{} = {} is outside {}..{}", what, value->get(), least, most));
    return least;
  }
  return value->get();
}

double TomlReader::DoubleIn(const toml::node& node, std::string_view what) {
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_integer()) return static_cast<double>(value->get());
  FailAt(node, fmt::format("{} must be a number", what));
  return 0;
}

}  // namespace attest
