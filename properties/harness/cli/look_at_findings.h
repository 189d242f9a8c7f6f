// The pictures of a report's page.
#ifndef ATTEST_HARNESS_CLI_LOOK_AT_FINDINGS_H_
#define ATTEST_HARNESS_CLI_LOOK_AT_FINDINGS_H_

#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/report/run_report.h"

namespace attest {

// Runs the case of each finding by value once more, for the pictures of the page.
void LookAtFindings(OpenedKernel& opened, KernelReport& kernel);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_LOOK_AT_FINDINGS_H_
