// Where a run's report goes beside the terminal: JSON lines, JUnit, and a folder with the case files
// of findings, a web page and Markdown. Errors are kept for the end, so that a full disk costs the
// report but not the run.
#ifndef ATTEST_HARNESS_CLI_REPORT_SINK_H_
#define ATTEST_HARNESS_CLI_REPORT_SINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/report/output_file.h"
#include "properties/harness/report/report_folder.h"
#include "properties/harness/report/run_report.h"

namespace attest {

struct ReportPaths {
  std::string json;              // empty = none
  std::string junit;             // empty = none
  std::string folder;            // for case files and pages
  bool is_folder_asked = false;  // by the user: there is a page then, findings or not
};

// That the report can be written and overwrites nothing that the command reads; output_paths.h says more.
tl::expected<void, std::string> CheckReportPaths(const std::vector<std::string>& reads,
                                                 const ReportPaths& paths);

// For runs that are no night: whether the folder is free of one, whose cases must outlive them.
tl::expected<void, std::string> CheckNoNight(const std::string& folder);

class ReportSink {
 public:
  // Opens the files. Asked for once nothing is left to be refused: what a killed run has left in them goes.
  static tl::expected<std::unique_ptr<ReportSink>, std::string> Open(const ReportPaths& paths);

  // Makes the folder this run's own and takes out of it what earlier runs have left: report_folder.h says more. A
  // night does not ask for it: it goes on with what is there.
  tl::expected<void, std::string> BeginFolder();

  void WriteJson(const std::string& line);
  // Saves the case and says how to replay it. `waived`: why it does not count; empty = it does.
  ReportedFinding Save(const Finding& finding, const RunInfo& info, const std::string& waived);
  // Likewise of a model, whose case and picture are in `reported`, as is why it does not count.
  ReportedFinding SaveModel(ReportedFinding reported, const RunInfo& info);
  // Whether the folder gets its pages: where the user asked for it, where the run has findings, and
  // where a page of an earlier run lies, which must not be taken for this one's.
  bool WantsPages(const RunReport& report) const;
  // index.html and report.md, in the folder.
  void WritePages(const RunReport& report);
  // Lines of JSON so far.
  int64_t lines() const { return lines_; }
  // Closes the files with their last words. The error is the first that was met.
  tl::expected<void, std::string> Finish(const std::string& last_json_line,
                                         const std::string& junit);
  // For a run that never began: leaves nothing behind.
  void Abandon();

 private:
  explicit ReportSink(ReportPaths paths);
  void Store(const RunInfo& info, ReportedFinding& reported);
  template <typename T>
  void Keep(const tl::expected<T, std::string>& done) {
    if (!done && first_error_.empty()) first_error_ = done.error();
  }

  ReportPaths paths_;
  ReportFolder folder_;
  bool had_page_ = false;  // before this run
  int64_t lines_ = 0;
  std::unique_ptr<OutputFile> json_;
  std::unique_ptr<OutputFile> junit_;
  std::string first_error_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_REPORT_SINK_H_
