// The reader of case files, for toml_parse.cc (the file, its data and where they lie) and
// toml_parse_problem.cc (what is to be computed) alone. Sections are read in order into one
// CaseFile; the first error sticks.
#ifndef ATTEST_HARNESS_CASE_TOML_PARSER_H_
#define ATTEST_HARNESS_CASE_TOML_PARSER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/toml.h"
#include "properties/harness/case/toml_reader.h"

namespace attest {

// Sizes beyond this are a mistake or an attack; both must be refused before anything is allocated.
inline constexpr int64_t kMaxTomlSize = int64_t{1} << 20;

// What may stand for a value of that type, for errors.
inline std::string KnownWords(DType) {
  return "f32, f64, f16, bf16; of fp8 e4m3, e5m2";
}
inline std::string KnownWords(Placement) {
  return "end, begin";
}
template <typename T>
std::string KnownWords(T) {
  std::string words;
  for (int i = 0; Name(static_cast<T>(i)) != "unknown"; ++i) {
    words += fmt::format("{}{}", i == 0 ? "" : ", ", Name(static_cast<T>(i)));
  }
  return words;
}

class CaseParser {
 public:
  explicit CaseParser(std::string_view path) : path_(path), reader_(path) {}

  tl::expected<CaseFile, std::string> Parse(const toml::table& root);

 private:
  void ReadHead(const toml::table& root);
  tl::expected<void, std::string> ReadBefore(const toml::table& root);
  void ReadProblem(const toml::table& root);
  void ReadSizes(const toml::table& table);
  void ReadOptions(const toml::table& table);
  void ReadDiagonal(const toml::table& table);
  void ReadScoring(const toml::table& table);
  void ReadFp8(const toml::table& table);
  std::vector<int64_t> ReadIntegers(const toml::array& array, std::string_view what, int64_t least,
                                    int64_t most);
  std::optional<std::vector<int64_t>> ReadLengths(const toml::table& table, std::string_view key);
  std::optional<std::vector<double>> ReadPerHead(const toml::table& table, std::string_view key);
  void CheckVolume(const toml::table& table);
  void ReadPlanes(const toml::table& root);
  std::optional<BitPlane> ReadMask(const toml::table& root, std::string_view section);
  void ReadBlockMask(const toml::table& root);
  void ReadDropout(const toml::table& root);
  BitPlane ReadPlane(const toml::table& table, const Shape4& full);
  void ReadShape(const toml::table& table, const Shape4& full, BitPlane& plane);
  void ReadRows(const toml::table& table, BitPlane& plane);
  void ReadDocuments(const toml::table& root);
  std::vector<int64_t> ReadIds(const toml::table& table, std::string_view key, int64_t len);
  void ReadData(const toml::table& root);
  void ReadSeed(const toml::table& data);
  void ReadOverrides(const toml::table& data);
  void ReadOverride(const toml::node& node);
  void ReadLiterals(const toml::table& root);
  void ReadLevel(const toml::node& node, std::string_view name, size_t depth, Array& array);
  void ReadLayout(const toml::table& root);
  void ReadStorage(const toml::table& root);
  void CheckCase(const toml::table& root);
  void CheckHash(const toml::table& root);
  uint32_t LineOf(const toml::table& root, const std::string& message);

  // A word of an enumeration; leaves `target` as it is when the key is absent.
  template <typename T, typename ParseWord>
  void ReadWord(const toml::table& table, std::string_view key, ParseWord parse, T& target) {
    const auto text = reader_.String(table, key, false);
    if (!text) return;
    if (const auto value = parse(*text)) {
      target = *value;
    } else {
      reader_.FailAt(*table.get(key), fmt::format("{} = \"{}\" is not known; known are {}", key,
                                                  *text, KnownWords(T{})));
    }
  }

  const std::string path_;
  TomlReader reader_;
  CaseFile file_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_TOML_PARSER_H_
