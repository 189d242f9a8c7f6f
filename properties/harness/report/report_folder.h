// The folder that a report's case files and pages lie in. What attest writes there is noted in the file
// .attest, by name and a hash of the content, so that a later run can take away what an earlier one has
// left: what is noted and has not been touched since, and nothing else. Caller: ReportSink.
#ifndef ATTEST_HARNESS_REPORT_REPORT_FOLDER_H_
#define ATTEST_HARNESS_REPORT_REPORT_FOLDER_H_

#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace attest {

class ReportFolder {
 public:
  // The folder is made with the first file.
  explicit ReportFolder(std::string path) : path_(std::move(path)) {}
  ~ReportFolder();
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;

  // Takes away what earlier runs have left; but nothing while another run is at work in the folder, as
  // shards may be, and nothing where the folder is not there. What cannot be taken away stays. A run that does not
  // begin so, a night, goes on with what is there, and what it writes is no later run's to take away.
  void RemoveOld();

  // Writes a file into the folder. What lies there under its name and was not written by attest, or was changed
  // since, is put aside as NAME.kept; not by a night, which writes its own files anew. The error is one line.
  tl::expected<void, std::string> Write(const std::string& name, std::string_view text);

 private:
  tl::expected<void, std::string> Note(const std::string& name, std::string_view text);
  bool OpenNotes();
  void KeepWhatIsNotOurs(const std::string& name) const;

  std::string path_;
  bool is_noted_ = false;
  int notes_ = -1;  // descriptor of .attest, with a shared lock as long as this run writes
};

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_REPORT_FOLDER_H_
