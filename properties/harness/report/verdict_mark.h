// How a state looks on a page: a sign and a word, so that nothing rests on colour alone. The HTML and
// Markdown writers share it.
#ifndef ATTEST_HARNESS_REPORT_VERDICT_MARK_H_
#define ATTEST_HARNESS_REPORT_VERDICT_MARK_H_

#include <string>
#include <string_view>

#include "properties/harness/judge/verdict.h"
#include "properties/harness/report/ladder.h"

namespace attest {

struct Mark {
  std::string_view sign;   // one character, UTF-8
  std::string_view word;   // "PASS" "not shown" ...
  std::string_view style;  // the class of the page's style sheet: good bad doubt none open
};

Mark MarkOf(VerdictKind kind);
// WAIVED where a failure does not count.
Mark MarkOf(const PropertyResult& result);
Mark MarkOf(const ReportedFinding& reported);
Mark MarkOf(RungState state);
// Of a kernel, or of the whole run: by the exit code, and WAIVED where it passes but for findings that do not count.
Mark MarkOf(const KernelReport& kernel);
Mark MarkOf(const RunReport& report);
// "3 findings", "0 findings, 3 waived"
std::string FindingsCount(const KernelReport& kernel);

// "✓ PASS"
std::string Text(const Mark& mark);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_VERDICT_MARK_H_
