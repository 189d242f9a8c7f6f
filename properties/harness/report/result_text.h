// A property's result as people read it: what stands beside its verdict. The terminal and JUnit
// writers share it.
#ifndef ATTEST_HARNESS_REPORT_RESULT_TEXT_H_
#define ATTEST_HARNESS_REPORT_RESULT_TEXT_H_

#include <string>
#include <string_view>

#include "properties/harness/report/run_report.h"

namespace attest {

// The verdict as reports show it: its name, or "WAIVED" for a failure that does not count.
std::string_view VerdictText(const PropertyResult& result);
std::string_view VerdictText(const ReportedFinding& reported);

// "of 1200 rows 3 uninformative, 0 unconstrained"; "" where every row was evidence.
std::string RowsText(const PropertyResult& result);

// How much evidence there was, and of what kind: reason, rows, "2 via mask", "only 10 of 300 cases
// fit the claim".
std::string NotesText(const PropertyResult& result);

// How near the kernel comes to the reference, from equivalence.matches_reference: "at most 0.31 of
// the bound, 0.6 of the probable one, rms 0.2; 1.4 times those of plain arithmetic of the same
// precision". What was not measured is left out; "" where that property was not run.
std::string ErrorsText(const KernelReport& kernel);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_RESULT_TEXT_H_
