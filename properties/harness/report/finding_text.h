// A finding as people read it, and as a file that `attest replay` reads.
#ifndef ATTEST_HARNESS_REPORT_FINDING_TEXT_H_
#define ATTEST_HARNESS_REPORT_FINDING_TEXT_H_

#include <optional>
#include <string>

#include "impl/attention/visibility.h"
#include "properties/harness/judge/verdict.h"
#include "properties/harness/report/run_report.h"

namespace attest {

// The text of the finding's case file.
std::string CaseFileText(const Finding& finding);
std::string CaseFileText(const ReportedFinding& reported);

// "tiled-tile-16.causal.future_keys_do_not_matter.value.out.causal-ignored.toml": one name for one
// kernel and signature, class included, so that a later run replaces the file. Safe in any shell.
std::string CaseFileName(const Finding& finding);

// The word as it must be written on a POSIX shell's command line.
std::string ShellQuote(const std::string& word);

// The row that the witness lies in, where the finding has one that lies in its smallest case. A present has none.
std::optional<Row> WitnessRow(const Problem& problem, const Verdict& verdict);

// The place of the witness in `at_fault`, the case that the verdict's value is from, drawn in text: what the rows of its
// head see; of a present which of its keys are past ones. "" where there is nothing to draw, or too much.
std::string PictureOf(const Case& at_fault, const Verdict& verdict);

// Whether the finding is read without explanation: one number came out where another was due, both finite, and the
// case is the one that was run.
bool IsPlain(const Finding& finding);

// Whether `a` says more than `b` to who reads one of the two: a fault with a name first, then the
// plainer witness, then the smaller case. An order.
bool ShowsBetter(const Finding& a, const Finding& b);

// The derived case that a verdict's value is from, spelled out as in a file; "" where it is long.
std::string DerivedCaseText(const Case& derived);

// Each line of `text` with `prefix` before it.
std::string Indent(const std::string& text, const std::string& prefix);

// The finding whole: signature, likely cause, sentence, smallest case, derived case, picture, replay
// command.
std::string FindingText(const ReportedFinding& reported);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_FINDING_TEXT_H_
