#include "properties/harness/report/picture.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

// More does not fit a screen, and is no picture of a small case.
constexpr int64_t kMaxQueries = 32;
constexpr int64_t kMaxKeys = 64;

// The first two speak for themselves.
constexpr size_t kPlainMarks = 2;
constexpr std::pair<char, std::string_view> kMarks[] = {
    {'#', "visible"},
    {'.', "hidden"},
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

}  // namespace

std::optional<VisibleGrid> VisibleGridOf(const Problem& problem, const std::optional<Row>& marked) {
  if (problem.batch == 0 || problem.q_heads == 0 || problem.q_len == 0 || problem.kv_len == 0 ||
      problem.q_len > kMaxQueries || problem.kv_len > kMaxKeys) {
    return std::nullopt;
  }
  Row row = marked.value_or(Row{});
  VisibleGrid grid{row.batch, row.head, {}};
  for (row.query = 0; row.query < problem.q_len; ++row.query) {
    VisibleGrid::Line line;
    for (int64_t key = 0; key < problem.kv_len; ++key) line.marks += MarkOf(problem, row, key);
    line.is_padding = IsPaddedQuery(problem, row);
    line.is_marked = marked && row == *marked;
    grid.lines.push_back(std::move(line));
  }
  return grid;
}

std::string_view MeaningOfMark(char mark) {
  for (const auto& [known, meaning] : kMarks) {
    if (known == mark) return meaning;
  }
  return "";
}

std::string LegendMarks(const VisibleGrid& grid) {
  std::string legend;
  for (size_t i = kPlainMarks; i < std::size(kMarks); ++i) {
    const char mark = kMarks[i].first;
    const auto has = [&](const VisibleGrid::Line& line) {
      return line.marks.find(mark) != line.marks.npos;
    };
    if (std::ranges::any_of(grid.lines, has)) legend += mark;
  }
  return legend;
}

std::string VisiblePicture(const Problem& problem, const std::optional<Row>& marked) {
  const auto grid = VisibleGridOf(problem, marked);
  if (!grid) return "";
  std::string picture;
  for (size_t query = 0; query < grid->lines.size(); ++query) {
    const VisibleGrid::Line& line = grid->lines[query];
    picture += fmt::format("query {:<2} {}{}{}\n", query, line.marks,
                           line.is_padding ? "  padding" : "", line.is_marked ? "  <" : "");
  }
  for (const char mark : LegendMarks(*grid)) {
    picture += fmt::format("{} = {}\n", mark, MeaningOfMark(mark));
  }
  return picture;
}

}  // namespace attest
