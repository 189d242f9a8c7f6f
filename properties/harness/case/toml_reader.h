// Typed reading of TOML nodes with errors that carry the line: what toml_parse.cc is written in.
// The first error sticks and every later read is a no-op, so that callers need not check each step.
#ifndef ATTEST_HARNESS_CASE_TOML_READER_H_
#define ATTEST_HARNESS_CASE_TOML_READER_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <toml++/toml.h>
#include <tl/expected.hpp>

namespace attest {

// A document as a table. The error is one line, "path:line: column N: what is wrong". Keys of absurd depth are
// refused, which the library would follow to the end of its stack.
tl::expected<toml::table, std::string> ParseTable(std::string_view text, std::string_view path);

class TomlReader {
 public:
  explicit TomlReader(std::string_view path) : path_(path) {}

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  // Records "path:line: message" unless an error is there already. Line 0 is left out.
  void Fail(uint32_t line, const std::string& message);
  void FailAt(const toml::node& node, const std::string& message);

  // Fails on any key of `table` that is not in `known`.
  void CheckKeys(const toml::table& table, std::string_view where,
                 std::initializer_list<std::string_view> known);

  // The member `key`, or nullptr when it is absent (an error where `required`) or of another type.
  const toml::table* Table(const toml::table& parent, std::string_view key, bool required);
  const toml::array* ArrayAt(const toml::table& parent, std::string_view key, bool required);
  std::optional<std::string> String(const toml::table& parent, std::string_view key, bool required);
  std::optional<int64_t> Integer(const toml::table& parent, std::string_view key, bool required,
                                 int64_t least, int64_t most);
  std::optional<double> Double(const toml::table& parent, std::string_view key);
  bool Bool(const toml::table& parent, std::string_view key);  // false when absent

  int64_t IntegerIn(const toml::node& node, std::string_view what, int64_t least, int64_t most);
  double DoubleIn(const toml::node& node, std::string_view what);  // integers count as floats

 private:
  const toml::node* Find(const toml::table& parent, std::string_view key, bool required);

  std::string path_;
  std::string error_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_TOML_READER_H_
