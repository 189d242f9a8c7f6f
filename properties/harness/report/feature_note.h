// The one line that a kernel without `features` of its own needs beside its results: what it is taken to
// offer then, and how to say otherwise. Callers: attest check and attest fuzz.
#ifndef ATTEST_HARNESS_REPORT_FEATURE_NOTE_H_
#define ATTEST_HARNESS_REPORT_FEATURE_NOTE_H_

#include <string>

#include "properties/harness/report/run_report.h"

namespace attest {

// Empty where the contract lists features, and where nothing went UNSUPPORTED or was refused for want of them.
std::string FeatureNote(const KernelReport& kernel);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_FEATURE_NOTE_H_
