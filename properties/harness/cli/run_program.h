// For end-to-end tests: runs the real programs of this build and reads what they leave.
#ifndef ATTEST_HARNESS_CLI_RUN_PROGRAM_H_
#define ATTEST_HARNESS_CLI_RUN_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace attest {

struct ProgramResult {
  int status = -1;  // exit status, or 128 + the signal that ended it
  std::string out;
  std::string err;
};

// The folder that this test's own program lies in, beside `attest`.
std::string BinFolder();

// A running `attest ARGUMENTS...` with `folder` as its working directory. Destruction kills it.
class Program {
 public:
  Program(const std::vector<std::string>& arguments, const std::string& folder);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void Signal(int signal);
  ProgramResult Wait();

 private:
  pid_t pid_ = -1;
  std::string out_path_;
  std::string err_path_;
};

ProgramResult RunAttest(const std::vector<std::string>& arguments, const std::string& folder);

std::string ReadText(const std::string& path);

// The whole lines of a JSON-lines file. A line that does not parse becomes a discarded value.
std::vector<nlohmann::json> ReadJsonLines(const std::string& path);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_RUN_PROGRAM_H_
