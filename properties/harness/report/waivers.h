// Waivers: findings that are known and accepted (corpus/waivers.toml, `attest check --waivers FILE`).
// A waived finding is shown with its reason and does not fail the run; a waiver whose finding no
// longer turns up is reported, so that none outlives its bug.
//
//   [[waiver]]
//   kernel = "onnxruntime:attention*"   # pattern (* ?) over the kernel as named on the command line
//   versions = ">=1.28.2 <1.30"         # of the kernel's own version; all conditions hold; "*": any
//   signature = "padding.side_does_not_matter/value/out"   # property/cause[/output]; any class
//   reason = "one line: who decided what"
#ifndef ATTEST_HARNESS_REPORT_WAIVERS_H_
#define ATTEST_HARNESS_REPORT_WAIVERS_H_

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/report/run_report.h"

namespace attest {

// A comparison of a dotted version, number by number ("1.9" < "1.28"); what is no number compares
// as text.
struct VersionCondition {
  enum class Operator { kEqual, kLess, kAtMost, kMore, kAtLeast };
  Operator op = Operator::kEqual;
  std::string version;
};

struct Waiver {
  std::string kernel;
  std::vector<VersionCondition> versions;  // empty = any version
  std::string property, cause, output;     // no output: of every output
  std::string reason;
};

// Errors are one line, "path:line: what is wrong".
tl::expected<std::vector<Waiver>, std::string> ParseWaivers(std::string_view text,
                                                            std::string_view path);
tl::expected<std::vector<Waiver>, std::string> ReadWaivers(const std::string& path);

// Why a failure with this signature of this kernel (as the user named it) does not count; empty = it
// does.
std::string ReasonToWaive(const std::vector<Waiver>& waivers, const std::string& kernel,
                          const std::string& version, const Signature& signature);

// Once the findings of a kernel are complete: marks the properties that fail by waived findings
// alone, and notes the waivers whose finding a property passed without.
void ApplyWaivers(const std::vector<Waiver>& waivers, KernelReport& kernel);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_WAIVERS_H_
