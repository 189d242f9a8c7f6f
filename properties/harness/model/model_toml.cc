// Model cases as files, and back.
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "properties/harness/case/toml_reader.h"
#include "properties/harness/model/model_case.h"

namespace attest {
namespace {

constexpr std::string_view kHead = "model_case = 1";

std::string Quoted(const std::string& text) {
  std::ostringstream quoted;
  quoted << toml::value<std::string>(text);
  return quoted.str();
}

void PutString(std::string& text, const char* key, const std::string& value) {
  if (!value.empty()) text += fmt::format("{} = {}\n", key, Quoted(value));
}

std::string List(const Sequence& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

void PutList(std::string& text, const char* key, const Sequence& values) {
  if (!values.empty()) text += fmt::format("{} = {}\n", key, List(values));
}

void PutLists(std::string& text, const char* key, const std::vector<Sequence>& lists) {
  if (lists.empty()) return;
  std::vector<std::string> items;
  items.reserve(lists.size());
  for (const Sequence& values : lists) items.push_back(List(values));
  text += fmt::format("{} = [{}]\n", key, fmt::join(items, ", "));
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

class Reader {
 public:
  explicit Reader(const std::string& path) : reader_(path) {}

  tl::expected<ModelCaseFile, std::string> Read(const toml::table& root) {
    reader_.CheckKeys(root, "a model's case file",
                      {"model_case", "property", "model", "against", "finding", "origin", "case"});
    reader_.Integer(root, "model_case", true, 1, 1);
    file_.property = reader_.String(root, "property", true).value_or("");
    file_.model = reader_.String(root, "model", false).value_or("");
    file_.against = reader_.String(root, "against", false).value_or("");
    file_.finding = reader_.String(root, "finding", false).value_or("");
    file_.c.origin = reader_.String(root, "origin", false).value_or("");
    if (const toml::table* table = reader_.Table(root, "case", true)) ReadCase(*table);
    if (!reader_.ok()) return tl::unexpected(reader_.error());
    return std::move(file_);
  }

 private:
  void ReadCase(const toml::table& table) {
    ModelCase& c = file_.c;
    reader_.CheckKeys(
        table, "[case]",
        {"tokens", "others", "sources", "other_sources", "side", "extra", "filler", "other_filler",
         "first_position", "cache", "chunks", "parents", "documents", "row_len", "seed"});
    Lists(table, "tokens", c.tokens);
    Lists(table, "others", c.others);
    Lists(table, "sources", c.sources);
    Lists(table, "other_sources", c.other_sources);
    ReadSide(table);
    c.extra = Number(table, "extra");
    c.filler = Number(table, "filler");
    c.other_filler = Number(table, "other_filler");
    if (const auto* list = reader_.ArrayAt(table, "first_position", false)) {
      c.first_position = Values(*list, "first_position");
    }
    c.cache = reader_.String(table, "cache", false).value_or("");
    if (const auto* list = reader_.ArrayAt(table, "chunks", false))
      c.chunks = Values(*list, "chunks");
    Lists(table, "parents", c.parents);
    Lists(table, "documents", c.documents);
    c.row_len = Number(table, "row_len");
    c.seed = static_cast<uint64_t>(Number(table, "seed"));
  }

  void ReadSide(const toml::table& table) {
    const std::string side = reader_.String(table, "side", false).value_or("none");
    for (const PaddingSide known : {PaddingSide::kNone, PaddingSide::kLeft, PaddingSide::kRight}) {
      if (side == Name(known)) file_.c.side = known;
      if (side == Name(known)) return;
    }
    reader_.FailAt(*table.get("side"),
                   fmt::format("side = \"{}\" is none of none, left, right", side));
  }

  int64_t Number(const toml::table& table, const char* key) {
    return reader_.Integer(table, key, false, 0, kMost).value_or(0);
  }

  Sequence Values(const toml::array& list, const char* what) {
    Sequence values;
    for (const toml::node& node : list) values.push_back(reader_.IntegerIn(node, what, 0, kMost));
    return values;
  }

  void Lists(const toml::table& table, const char* key, std::vector<Sequence>& into) {
    const toml::array* lists = reader_.ArrayAt(table, key, false);
    if (lists == nullptr) return;
    for (const toml::node& node : *lists) {
      if (const toml::array* list = node.as_array()) {
        into.push_back(Values(*list, key));
      } else {
        reader_.FailAt(node, fmt::format("{} holds lists", key));
      }
    }
  }

  TomlReader reader_;
  ModelCaseFile file_;
};

}  // namespace

std::string ToToml(const ModelCaseFile& file) {
  const ModelCase& c = file.c;
  std::string text = fmt::format("{}\n", kHead);
  PutString(text, "property", file.property);
  PutString(text, "model", file.model);
  PutString(text, "against", file.against);
  PutString(text, "finding", file.finding);
  PutString(text, "origin", c.origin);
  text += "\n[case]\n";
  PutLists(text, "tokens", c.tokens);
  PutLists(text, "others", c.others);
  PutLists(text, "sources", c.sources);
  PutLists(text, "other_sources", c.other_sources);
  if (c.side != PaddingSide::kNone) {
    text += fmt::format("side = \"{}\"\nextra = {}  # padding beyond the longest\n", Name(c.side),
                        c.extra);
  }
  if (c.documents.empty()) {
    text += fmt::format("filler = {}\nother_filler = {}\n", c.filler, c.other_filler);
  }
  PutList(text, "first_position", c.first_position);
  if (!c.cache.empty()) {
    text +=
        fmt::format("cache = \"{}\"\nchunks = {}  # after the prompt\n", c.cache, List(c.chunks));
  }
  PutLists(text, "parents", c.parents);
  PutLists(text, "documents", c.documents);
  if (c.row_len != 0) text += fmt::format("row_len = {}\n", c.row_len);
  return text + fmt::format("seed = {}\n", c.seed);
}

tl::expected<ModelCaseFile, std::string> ParseModelCase(const std::string& text,
                                                        const std::string& path) {
  const auto table = ParseTable(text, path);
  if (!table) return tl::unexpected(table.error());
  return Reader(path).Read(*table);
}

bool IsModelCase(const std::string& text) {
  return text.starts_with(kHead) || text.find("\nmodel_case") != std::string::npos;
}

}  // namespace attest
