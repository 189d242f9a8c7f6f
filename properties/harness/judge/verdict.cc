#include "properties/harness/judge/verdict.h"

#include <fmt/format.h>

namespace attest {

std::string_view Name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kPass:
      return "PASS";
    case VerdictKind::kFail:
      return "FAIL";
    case VerdictKind::kMarginal:
      return "MARGINAL";
    case VerdictKind::kUnsupported:
      return "UNSUPPORTED";
    case VerdictKind::kInconclusive:
      return "INCONCLUSIVE";
  }
  return "?";
}

std::string_view Name(Cause cause) {
  constexpr std::string_view kNames[] = {
      "none",      "nan",           "inf",        "value",        "refused",
      "unwritten", "input_changed", "read_fault", "write_fault",  "stray_write",
      "crash",     "exit",          "hang",       "memory_limit", "float_environment",
      "protocol",  "left_process",  "late_write", "leak"};
  return kNames[static_cast<size_t>(cause)];
}

std::string ToString(const Signature& s) {
  std::string text = fmt::format("{}/{}", s.property, Name(s.cause));
  for (const std::string& part : {s.output, s.cause_class}) {
    if (!part.empty()) text += "/" + part;
  }
  return text;
}

bool Covers(const Signature& pattern, const Signature& s) {
  return pattern.property == s.property && pattern.cause == s.cause && pattern.output == s.output &&
         (pattern.cause_class.empty() || pattern.cause_class == s.cause_class);
}

}  // namespace attest
