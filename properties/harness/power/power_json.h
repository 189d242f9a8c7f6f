// The kill matrix as JSON lines, for scripts: {"type":"power"} first, a "subject" a kernel, a "property" a
// property where all were run, "summary" last.
#ifndef ATTEST_HARNESS_POWER_POWER_JSON_H_
#define ATTEST_HARNESS_POWER_POWER_JSON_H_

#include <string>
#include <vector>

#include "properties/harness/power/power_text.h"

namespace attest {

std::string PowerJsonLines(const PowerInfo& info, const PowerSummary& summary,
                           const std::vector<Kill>& kills, int exit_code);

}  // namespace attest

#endif  // ATTEST_HARNESS_POWER_POWER_JSON_H_
