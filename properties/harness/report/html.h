// The report as one web page that stands alone: no script, no request, nothing but its own style
// sheet. Ladders and the matrix of kernels and properties first, then every finding with its pictures,
// its case and its replay command, then what stands beside the verdicts. For people; the JSON lines
// are for programs.
#ifndef ATTEST_HARNESS_REPORT_HTML_H_
#define ATTEST_HARNESS_REPORT_HTML_H_

#include <string>

#include "properties/harness/report/run_report.h"

namespace attest {

// A whole document in UTF-8. Links to case files are relative: it is meant to lie beside them. Its size
// is bounded, whatever the number of findings: some are shown without pictures, and in the end only
// counted.
std::string HtmlPage(const RunReport& report);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_HTML_H_
