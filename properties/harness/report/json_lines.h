// The report as JSON lines, one object a line, for programs: `run` first, `finding` as soon as one
// is made, `result` for each property and kernel, `summary` with each kernel's ladder last. Numbers that JSON has no word for
// are the strings "nan", "inf" and "-inf".
#ifndef ATTEST_HARNESS_REPORT_JSON_LINES_H_
#define ATTEST_HARNESS_REPORT_JSON_LINES_H_

#include <cstdint>
#include <string>

#include "properties/harness/report/run_report.h"

namespace attest {

// Each returns one line with its '\n'.
std::string RunLine(const RunReport& report);
std::string FindingLine(const ReportedFinding& reported);
std::string ResultLine(const PropertyResult& result);
// `exit_code` is what the process will end with; `lines` stand before this one, so that a reader knows whether one
// is lost.
std::string SummaryLine(const RunReport& report, int exit_code, int64_t lines);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_JSON_LINES_H_
