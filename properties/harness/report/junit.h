// The report as JUnit XML, for continuous integration: a suite a kernel, headed by its ladder, a
// test a property.
// UNSUPPORTED is skipped, INCONCLUSIVE an error, a finding a failure with its whole text.
#ifndef ATTEST_HARNESS_REPORT_JUNIT_H_
#define ATTEST_HARNESS_REPORT_JUNIT_H_

#include <string>

#include "properties/harness/report/run_report.h"

namespace attest {

std::string JUnitText(const RunReport& report);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_JUNIT_H_
