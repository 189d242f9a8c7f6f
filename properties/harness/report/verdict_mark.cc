#include "properties/harness/report/verdict_mark.h"

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

Mark MarkOfExit(int exit_code) {
  if (exit_code == 0) return MarkOf(VerdictKind::kPass);
  return MarkOf(exit_code == 1 ? VerdictKind::kFail : VerdictKind::kInconclusive);
}

std::string Text(const Mark& mark) {
  return fmt::format("{} {}", mark.sign, mark.word);
}

}  // namespace attest
