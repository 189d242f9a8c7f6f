#include "properties/harness/report/picture.h"

#include <fmt/format.h>

namespace attest {
namespace {

// More does not fit a screen, and is no picture of a small case.
constexpr int64_t kMaxQueries = 32;
constexpr int64_t kMaxKeys = 64;

}  // namespace

std::string VisiblePicture(const Problem& problem, const std::optional<Row>& marked) {
  if (problem.batch == 0 || problem.q_heads == 0 || problem.q_len == 0 || problem.kv_len == 0 ||
      problem.q_len > kMaxQueries || problem.kv_len > kMaxKeys) {
    return "";
  }
  std::string picture;
  Row row = marked.value_or(Row{});
  for (row.query = 0; row.query < problem.q_len; ++row.query) {
    picture += fmt::format("query {:<2} ", row.query);
    for (int64_t key = 0; key < problem.kv_len; ++key) {
      picture += Visible(problem, row, key) ? '#' : '.';
    }
    picture += marked && row == *marked ? "  <\n" : "\n";
  }
  return picture;
}

}  // namespace attest
