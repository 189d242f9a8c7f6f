// A probe's report as the user reads it, and as JSON.
#ifndef ATTEST_HARNESS_PROBE_PROBE_TEXT_H_
#define ATTEST_HARNESS_PROBE_PROBE_TEXT_H_

#include <string>

#include "properties/harness/probe/probe.h"

namespace attest::probe {

// The visible sets, one line a convention with its evidence, the proposed contract and what it and
// the declared one disagree on.
std::string ReportText(const std::string& kernel, const ProbeReport& report,
                       const Contract& declared);

// One JSON object on one line: type "probe", kernel, calls, contradicts, matrices, conventions (topic,
// observed, declared, evidence, agreement), proposed (a contract).
std::string ReportJson(const std::string& kernel, const ProbeReport& report);

}  // namespace attest::probe

#endif  // ATTEST_HARNESS_PROBE_PROBE_TEXT_H_
