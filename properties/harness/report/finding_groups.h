// Findings of one kernel that are most likely one fault, put together: who reads a report wants the
// faults, not every claim that each of them breaks. The writers of this folder show one of each group
// whole.
#ifndef ATTEST_HARNESS_REPORT_FINDING_GROUPS_H_
#define ATTEST_HARNESS_REPORT_FINDING_GROUPS_H_

#include <vector>

#include "properties/harness/report/run_report.h"

namespace attest {

// Never empty; the finding that shows best comes first.
using FindingGroup = std::vector<const ReportedFinding*>;

// A kernel's findings by cause, output and kind of fault, the most telling group first. A finding
// whose fault has no name goes with one that looks alike and has. They point into `kernel`.
std::vector<FindingGroup> GroupsOf(const KernelReport& kernel);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_FINDING_GROUPS_H_
