// The report as Markdown, for the summary page of a continuous integration run: ladders, the matrix by
// family, and the findings with their cases folded. GitHub's flavour.
#ifndef ATTEST_HARNESS_REPORT_MARKDOWN_H_
#define ATTEST_HARNESS_REPORT_MARKDOWN_H_

#include <string>
#include <string_view>

#include "properties/harness/report/run_report.h"

namespace attest {

// Below 900 kB, for a summary page takes 1 MB: findings beyond are only counted. Text that a kernel may
// have had a hand in stands there as it is written, whatever it holds.
std::string MarkdownReport(const RunReport& report);

// One line of text that Markdown takes for nothing but text, in a table too.
std::string MarkdownText(std::string_view text);

// A fenced block that `text` cannot end.
std::string MarkdownBlock(std::string_view text);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_MARKDOWN_H_
