// The memory of a night: lines that are only ever added, so that a run that is killed at any moment has lost
// nothing. `attest fuzz` writes it, and reads it when it goes on.
#ifndef ATTEST_HARNESS_NIGHT_JOURNAL_H_
#define ATTEST_HARNESS_NIGHT_JOURNAL_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/sandbox/file_descriptor.h"

namespace attest {

class Journal {
 public:
  // Makes the file where there is none, and cuts off half a last line. Fails where another process has
  // it open, and where it cannot be written. The error is one line.
  static tl::expected<std::unique_ptr<Journal>, std::string> Open(const std::string& path);

  // The whole lines that were there, without their ends.
  const std::vector<std::string>& lines() const { return lines_; }
  // One line, with its end; on the disk when this returns.
  tl::expected<void, std::string> Append(std::string_view line);

 private:
  Journal() = default;
  std::string path_;
  FileDescriptor file_;
  std::vector<std::string> lines_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_JOURNAL_H_
