// Files that a report is written to. Either the whole file stands there in the end or the old one
// does: text goes to a neighbour first, which is renamed over the target once it is safe on the
// disk. Devices, pipes and other special files are written directly, since they must not be
// replaced.
#ifndef ATTEST_HARNESS_REPORT_OUTPUT_FILE_H_
#define ATTEST_HARNESS_REPORT_OUTPUT_FILE_H_

#include <memory>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace attest {

// An open output. While it is being written the text stands in PATH.partial, complete up to the
// last Append, so that a killed run loses nothing that it had reported. A second run with the same
// PATH at the same time would share that neighbour, so it is locked: Open fails then.
class OutputFile {
 public:
  // The error is one line that names the path and what to do.
  static tl::expected<std::unique_ptr<OutputFile>, std::string> Open(const std::string& path);
  // Without Commit the target stays as it was, and PATH.partial stays behind.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Writes all of `text` through to the file system. After an error (a full disk) the partial file
  // is gone, and every further call returns the same error.
  tl::expected<void, std::string> Append(std::string_view text);
  // Makes it the target: fsync, rename.
  tl::expected<void, std::string> Commit();
  // Removes what was written; the target stays as it was.
  void Discard();

 private:
  OutputFile() = default;
  tl::expected<void, std::string> Fail(int error);

  std::string path_;
  std::string partial_;  // empty for special files
  std::string error_;
  int descriptor_ = -1;
};

// Where the text of a file stands until it is whole.
std::string PartialOf(const std::string& path);

// One line: that `path` cannot be written, why (an errno), and how to mend it.
std::string CannotWrite(const std::string& path, int error);

// Open, Append and Commit in one; leaves nothing behind on failure.
tl::expected<void, std::string> WriteFile(const std::string& path, std::string_view text);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_OUTPUT_FILE_H_
