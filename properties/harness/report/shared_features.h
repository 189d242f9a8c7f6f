// What the cases of several findings have in common. Shrinking has left in each case what its failure needs, so that a
// feature that all of them have is what the fault is a fault of, whatever cause was guessed.
#ifndef ATTEST_HARNESS_REPORT_SHARED_FEATURES_H_
#define ATTEST_HARNESS_REPORT_SHARED_FEATURES_H_

#include <string>
#include <vector>

#include "properties/harness/report/run_report.h"

namespace attest {

// "sinks, packed, dtype = f16": of the calls at fault (Finding::derived, else the smallest case). Empty where they share nothing,
// or are too few for that to say something.
std::string SharedFeatures(const std::vector<const ReportedFinding*>& findings);
// Whether there is a feature among those: more than sizes and types, which many faults need.
bool ShareAFeature(const std::vector<const ReportedFinding*>& findings);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_SHARED_FEATURES_H_
