// Waivers: findings that are known and accepted (corpus/waivers.toml, `attest check --waivers FILE`).
// A waived finding is shown with its reason and does not fail the run; a waiver whose finding no
// longer turns up is reported, so that none outlives its bug.
//
//   [[waiver]]
//   kernel = "onnxruntime:attention*"   # pattern (* ?) over the kernel as named on the command line
//   versions = ">=1.28.2 <1.30"         # of the kernel's own version; all conditions hold; "*": any
//   signature = "*/value/out*"          # pattern over the whole signature, property/cause/output/class
//   when = ["causal", "kv_len > q_len"] # the fault's trigger: waiver_conditions.h, of models model_conditions.h; may
//                                       # be left out
//   reason = "one line: who decided what"
//
// All conditions hold on one case: the smallest, or one that the property derives from it. A failure without the trigger is waived by none and looked into by itself, whatever its signature.
#ifndef ATTEST_HARNESS_REPORT_WAIVERS_H_
#define ATTEST_HARNESS_REPORT_WAIVERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/model/model_case.h"
#include "properties/harness/report/model_conditions.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/report/waiver_conditions.h"

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
  std::string signature;
  // The trigger as a case of a kernel has it, and as one of a model; nullopt = it speaks of no such property or case.
  std::optional<std::vector<CaseCondition>> when;
  std::optional<std::vector<ModelCondition>> model_when;
  std::string reason;
};

// Errors are one line, "path:line: what is wrong".
tl::expected<std::vector<Waiver>, std::string> ParseWaivers(std::string_view text,
                                                            std::string_view path);
tl::expected<std::vector<Waiver>, std::string> ReadWaivers(const std::string& path);

// Why a failure of the kernel with this signature on this case does not count; empty = it does. `verdict`
// is that of the case.
std::string ReasonToWaive(const std::vector<Waiver>& waivers, const KernelReport& kernel,
                          const Signature& signature, const Case& failing, const Verdict& verdict);
std::string ReasonToWaive(const std::vector<Waiver>& waivers, const KernelReport& model,
                          const Signature& signature, const ModelCase& failing,
                          const Verdict& verdict);

// Once the findings of a kernel are complete: marks the properties that fail by waived findings
// alone, and notes the waivers without a finding, where every property that they speak of ran whole. Waivers with
// one reason count as one.
void ApplyWaivers(const std::vector<Waiver>& waivers, KernelReport& kernel);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_WAIVERS_H_
