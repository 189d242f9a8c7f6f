#include "properties/harness/report/picture.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

// More does not fit a screen, and is no picture of a small case.
constexpr int64_t kMaxQueries = 32;
constexpr int64_t kMaxKeys = 64;

// What a mark means, for those that do not speak for themselves.
constexpr std::pair<char, std::string_view> kLegend[] = {
    {'+', "visible by the prefix alone"},
    {'d', "hidden by its document alone"},
    {'b', "hidden by the block mask alone"},
};

// Whether the row sees the key only because causality spares the prefix.
bool IsSeenByPrefix(const Problem& problem, const Row& row, int64_t key) {
  return problem.causal && problem.prefix_lengths &&
         key > row.query + problem.DiagonalOffset(row.batch);
}

char MarkOf(const Problem& problem, const Row& row, int64_t key) {
  switch (WhyHidden(problem, row, key)) {
    case kHiddenByNothing:
      return IsSeenByPrefix(problem, row, key) ? '+' : '#';
    case kHiddenByDocument:
      return 'd';
    case kHiddenByBlock:
      return 'b';
    default:
      return '.';
  }
}

std::string LegendOf(const std::string& picture) {
  std::string legend;
  for (const auto& [mark, meaning] : kLegend) {
    if (picture.find(mark) != picture.npos) legend += fmt::format("{} = {}\n", mark, meaning);
  }
  return legend;
}

}  // namespace

std::string VisiblePicture(const Problem& problem, const std::optional<Row>& marked) {
  if (problem.batch == 0 || problem.q_heads == 0 || problem.q_len == 0 || problem.kv_len == 0 ||
      problem.q_len > kMaxQueries || problem.kv_len > kMaxKeys) {
    return "";
  }
  std::string picture, marks;
  Row row = marked.value_or(Row{});
  for (row.query = 0; row.query < problem.q_len; ++row.query) {
    std::string line;
    for (int64_t key = 0; key < problem.kv_len; ++key) line += MarkOf(problem, row, key);
    marks += line;
    picture += fmt::format("query {:<2} {}", row.query, line);
    if (IsPaddedQuery(problem, row)) picture += "  padding";
    picture += marked && row == *marked ? "  <\n" : "\n";
  }
  return picture + LegendOf(marks);
}

}  // namespace attest
