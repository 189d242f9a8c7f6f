#include "properties/harness/report/verdict_mark.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "properties/harness/report/result_text.h"

namespace attest {
namespace {

constexpr std::string_view kTick = "\xe2\x9c\x93", kCross = "\xe2\x9c\x97", kDash = "\xe2\x80\x93",
                           kAbout = "\xe2\x89\x88";

// `word` is what reports write for it.
Mark Waivable(VerdictKind kind, bool is_waived, std::string_view word) {
  return is_waived ? Mark{kAbout, word, "doubt"} : MarkOf(kind);
}

Mark MarkOfExit(int exit_code, bool has_waived) {
  if (exit_code == 0) return Waivable(VerdictKind::kPass, has_waived, "WAIVED");
  return MarkOf(exit_code == 1 ? VerdictKind::kFail : VerdictKind::kInconclusive);
}

}  // namespace

Mark MarkOf(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kPass:
      return {kTick, Name(kind), "good"};
    case VerdictKind::kFail:
      return {kCross, Name(kind), "bad"};
    case VerdictKind::kMarginal:
      return {kAbout, Name(kind), "doubt"};
    case VerdictKind::kUnsupported:
      return {kDash, Name(kind), "none"};
    case VerdictKind::kInconclusive:
      return {"?", Name(kind), "open"};
  }
  return {"?", "?", "open"};
}

Mark MarkOf(const PropertyResult& result) {
  return Waivable(result.verdict, result.waived, VerdictText(result));
}

Mark MarkOf(const ReportedFinding& reported) {
  return Waivable(reported.finding.verdict.kind, !reported.waived.empty(), VerdictText(reported));
}

Mark MarkOf(RungState state) {
  switch (state) {
    case RungState::kHolds:
      return {kTick, Name(state), "good"};
    case RungState::kBreaks:
      return {kCross, Name(state), "bad"};
    case RungState::kNotPromised:
    case RungState::kNotOffered:
      return {kDash, Name(state), "none"};
    case RungState::kNotShown:
      return {"?", Name(state), "open"};
  }
  return {"?", "?", "open"};
}

Mark MarkOf(const KernelReport& kernel) {
  return MarkOfExit(ExitCodeOf(kernel), CountWaived(kernel) > 0);
}

Mark MarkOf(const RunReport& report) {
  const auto has_waived = [](const KernelReport& kernel) { return CountWaived(kernel) > 0; };
  return MarkOfExit(ExitCode(report), std::ranges::any_of(report.kernels, has_waived));
}

std::string FindingsCount(const KernelReport& kernel) {
  const int64_t waived = CountWaived(kernel);
  std::string text = fmt::format("{} findings", std::ssize(kernel.findings) - waived);
  if (waived > 0) text += fmt::format(", {} waived", waived);
  return text;
}

std::string Text(const Mark& mark) {
  return fmt::format("{} {}", mark.sign, mark.word);
}

}  // namespace attest
