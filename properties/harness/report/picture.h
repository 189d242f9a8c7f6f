// The visible set of a small case, drawn: a row a query, a column a key, # visible and . hidden. Keys
// that the prefix alone shows, or that a document or the block mask alone hides, are marked so.
#ifndef ATTEST_HARNESS_REPORT_PICTURE_H_
#define ATTEST_HARNESS_REPORT_PICTURE_H_

#include <optional>
#include <string>

#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"

namespace attest {

// The rows of one (batch item, query head), each line ending in '\n':
//
//   query 0  #....
//   query 1  #+d..  <
//   + = visible by the prefix alone
//   d = hidden by its document alone
//
// Rows beyond their query length say "padding".
// `marked` is the row under discussion: its batch item and head are drawn, and it is pointed at.
// Without it, the first of each. Empty where the case has no row or no key, or too many for a
// screen.
std::string VisiblePicture(const Problem& problem, const std::optional<Row>& marked);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_PICTURE_H_
