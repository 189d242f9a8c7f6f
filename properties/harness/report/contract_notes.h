// What a kernel's author needs to hear about a contract that says less than it means: promises that it makes
// by naming a published contract, and features that it does not list. Callers: attest check and attest fuzz.
#ifndef ATTEST_HARNESS_REPORT_CONTRACT_NOTES_H_
#define ATTEST_HARNESS_REPORT_CONTRACT_NOTES_H_

#include <string>
#include <vector>

#include "properties/harness/report/run_report.h"

namespace attest {

// One line each; empty where nothing has come of what the contract leaves out: neither a finding nor
// a property that was UNSUPPORTED.
std::vector<std::string> ContractNotes(const KernelReport& kernel);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_CONTRACT_NOTES_H_
