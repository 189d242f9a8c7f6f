// What each row of a small case sees, as data and drawn in text. Findings, the replay command and the
// report page show it.
#ifndef ATTEST_HARNESS_REPORT_PICTURE_H_
#define ATTEST_HARNESS_REPORT_PICTURE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"

namespace attest {

// The rows of one (batch item, query head).
struct VisibleGrid {
  struct Line {
    std::string marks;        // a character a key: '#' visible, '.' hidden, else see LegendOf
    bool is_padding = false;  // beyond its query length
    bool is_marked = false;   // the row under discussion
  };
  int64_t batch = 0;
  int64_t head = 0;
  std::vector<Line> lines;  // one a query
};

// `marked` is the row under discussion: its batch item and head are shown. Without it, the first of
// each. nullopt where the case has no row or no key, or too many for a screen.
std::optional<VisibleGrid> VisibleGridOf(const Problem& problem, const std::optional<Row>& marked);

// What a mark of a grid means: "visible by the prefix alone".
std::string_view MeaningOfMark(char mark);

// The marks of the grid that do not speak for themselves, in a fixed order.
std::string LegendMarks(const VisibleGrid& grid);

// The grid as text, each line ending in '\n':
//
//   query 0  #....
//   query 1  #+d..  <
//   + = visible by the prefix alone
//   d = hidden by its document alone
//
// Rows beyond their query length say "padding". Empty where there is no grid.
std::string VisiblePicture(const Problem& problem, const std::optional<Row>& marked);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_PICTURE_H_
