// Reads back what json_lines.h writes: `attest merge` joins the lines of shards, and a night that goes
// on after a kill begins with those of its last start. Lines of kinds and with fields that are not
// known are passed over, so that an older program reads a newer one's.
#ifndef ATTEST_HARNESS_REPORT_JSON_READ_H_
#define ATTEST_HARNESS_REPORT_JSON_READ_H_

#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "properties/harness/report/run_report.h"

namespace attest {

// A run as its lines tell it. Of each kernel there are its contract as declared (hold it to
// report.info.held_to where that is named), results, findings and what the summary says of it. No finding
// has its derived case or its pictures: they need the property, or the kernel.
struct ReadRun {
  std::string path;
  RunReport report;
  std::optional<int> exit_code;  // of the summary; nullopt: the run did not come to its end
};

// The error is one line, "path:line: what is wrong".
tl::expected<ReadRun, std::string> ParseJsonLines(std::string_view text, const std::string& path);
tl::expected<ReadRun, std::string> ReadJsonLinesOf(const std::string& path);

// One line of its kind, without the path in an error.
tl::expected<ReportedFinding, std::string> ParseFindingLine(std::string_view line);
tl::expected<PropertyResult, std::string> ParseResultLine(std::string_view line);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_JSON_READ_H_
