// The folder that a report's case files and pages lie in. What attest writes there is noted in the file
// .attest, by name and a hash of the content, so that a later run can take away what an earlier one has
// left: what is noted and has not been touched since, and nothing else. A folder is one run's at a time: two
// runs at once would leave the page of one beside the cases of the other. Caller: ReportSink.
#ifndef ATTEST_HARNESS_REPORT_REPORT_FOLDER_H_
#define ATTEST_HARNESS_REPORT_REPORT_FOLDER_H_

#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace attest {

class ReportFolder {
 public:
  // What a run does where another is at work in the folder.
  enum class IfTaken { kRefuse, kTakeNext };  // next: the first of PATH-2, PATH-3... that is free

  explicit ReportFolder(std::string path, IfTaken if_taken = IfTaken::kRefuse)
      : path_(std::move(path)), if_taken_(if_taken) {}
  ~ReportFolder();
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;

  // Makes the folder this run's own, until it ends, and takes away what earlier runs have left; what cannot be
  // taken away stays. A folder that is not there is made, by kTakeNext with the first file. A run that does not begin
  // so, a night, goes on with what is there, and what it writes is no later run's to take away. The error, one line, is
  // of a folder that another run has.
  tl::expected<void, std::string> Begin();

  // Writes a file into the folder and returns its path. What lies there under its name and was not written by
  // attest, or was changed since, is put aside as NAME.kept; not by a night, which writes its own files
  // anew. The error is one line.
  tl::expected<std::string, std::string> Write(const std::string& name, std::string_view text);

 private:
  enum class Claim { kOurs, kTaken, kCannot };
  Claim TryToTake(const std::string& path);
  bool MoveOn();
  tl::expected<void, std::string> MakeOurs();
  tl::expected<void, std::string> Note(const std::string& name, std::string_view text) const;
  void RemoveOld() const;
  void KeepWhatIsNotOurs(const std::string& name) const;

  std::string path_;
  IfTaken if_taken_;
  int number_ = 1;         // of the folder: 1 = as it was named
  bool is_noted_ = false;  // false: a night
  int notes_ = -1;         // descriptor of .attest, locked as long as this run goes on
};

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_REPORT_FOLDER_H_
