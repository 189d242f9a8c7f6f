// Where a run's report goes beside the terminal: JSON lines, JUnit, case files of findings. Errors
// are kept for the end, so that a full disk costs the report but not the run.
#ifndef ATTEST_HARNESS_CLI_REPORT_SINK_H_
#define ATTEST_HARNESS_CLI_REPORT_SINK_H_

#include <memory>
#include <string>

#include <tl/expected.hpp>

#include "properties/harness/report/output_file.h"
#include "properties/harness/report/run_report.h"

namespace attest {

struct ReportPaths {
  std::string json;    // empty = none
  std::string junit;   // empty = none
  std::string folder;  // for case files; made with the first finding
};

class ReportSink {
 public:
  // Opens the files, so that a path that cannot be written is noticed before the run and not after.
  static tl::expected<std::unique_ptr<ReportSink>, std::string> Open(const ReportPaths& paths);

  void WriteJson(const std::string& line);
  // Saves the case and says how to replay it.
  ReportedFinding Save(const Finding& finding, const std::string& program);
  // Closes the files with their last words. The error is the first that was met.
  tl::expected<void, std::string> Finish(const std::string& last_json_line,
                                         const std::string& junit);
  // For a run that never began: leaves nothing behind.
  void Abandon();

 private:
  explicit ReportSink(ReportPaths paths) : paths_(std::move(paths)) {}
  void Keep(const tl::expected<void, std::string>& done);
  void SaveCase(const Finding& finding, const std::string& file);

  ReportPaths paths_;
  std::unique_ptr<OutputFile> json_;
  std::unique_ptr<OutputFile> junit_;
  std::string first_error_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_REPORT_SINK_H_
