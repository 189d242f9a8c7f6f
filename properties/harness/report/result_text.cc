#include "properties/harness/report/result_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace attest {

std::string_view VerdictText(const PropertyResult& result) {
  return result.waived ? "WAIVED" : Name(result.verdict);
}

std::string_view VerdictText(const ReportedFinding& reported) {
  return reported.waived.empty() ? Name(reported.finding.verdict.kind) : "WAIVED";
}

std::string RowsText(const PropertyResult& r) {
  if (r.uninformative_rows + r.unconstrained_rows == 0) return "";
  return fmt::format("of {} rows {} uninformative, {} unconstrained", r.rows, r.uninformative_rows,
                     r.unconstrained_rows);
}

std::string NotesText(const PropertyResult& r) {
  std::string notes = r.reason;
  const auto add = [&](const std::string& note) {
    if (!note.empty()) notes += (notes.empty() ? "" : "; ") + note;
  };
  add(RowsText(r));
  if (r.via_mask > 0) add(fmt::format("{} via mask", r.via_mask));
  if (r.cases_run() < r.wanted && r.verdict == VerdictKind::kPass) {
    add(fmt::format("only {} of {} cases fit the claim", r.cases_run(), r.wanted));
  }
  return notes;
}

std::string ErrorsText(const KernelReport& kernel) {
  const auto result = std::find_if(
      kernel.results.begin(), kernel.results.end(),
      [](const PropertyResult& r) { return r.property == "equivalence.matches_reference"; });
  if (result == kernel.results.end() || result->cases_run() == 0) return "";
  const ErrorFigures& f = result->figures;
  std::string text = fmt::format("at most {:.2g} of the bound", result->worst_ratio);
  if (f.probable_ratio > 0) text += fmt::format(", {:.2g} of the probable one", f.probable_ratio);
  if (f.rms > 0) text += fmt::format(", rms {:.2g}", f.rms);
  if (f.plain_ratio > 0) {
    text += fmt::format("; {:.2g} times those of plain arithmetic of the same precision",
                        f.plain_ratio);
  }
  return text;
}

}  // namespace attest
