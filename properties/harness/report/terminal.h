// The report on a terminal: each kernel's ladder, the matrix of kernels and properties (a list with
// counts where there is one kernel), the findings grouped by cause below it, and a closing line.
#ifndef ATTEST_HARNESS_REPORT_TERMINAL_H_
#define ATTEST_HARNESS_REPORT_TERMINAL_H_

#include <string>

#include "properties/harness/report/run_report.h"

namespace attest {

std::string TerminalReport(const RunReport& report);

// The findings of all kernels; optional kernels last. A kernel's findings of one cause and output
// are one group: the first is shown whole, of the others the signature and the replay command.
std::string FindingsText(const RunReport& report);

// Control characters (a kernel may have printed anything) as '?', so that they cannot drive the
// terminal; newlines stay.
std::string Printable(const std::string& text);
// Likewise, newlines as spaces.
std::string PrintableLine(const std::string& text);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_TERMINAL_H_
