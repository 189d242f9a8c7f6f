#include "properties/harness/cli/console.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "properties/harness/report/terminal.h"

namespace attest {
namespace {

int lost_output_errno = 0;  // the first error of a Print; 0 = none

}  // namespace

int Complain(ExitStatus status, const std::string& text) {
  std::string line = Printable(text);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fputs(("attest: " + line + "\n").c_str(), stderr);
  return status;
}

void Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && lost_output_errno == 0) {
    lost_output_errno = errno;
  }
}

int EndOutput(int status) {
  if (std::fflush(stdout) != 0 && lost_output_errno == 0) lost_output_errno = errno;
  if (lost_output_errno == 0) return status;
  // Whoever closed a pipe (head, less) knows; the results were not seen all the same.
  if (lost_output_errno == EPIPE) return kExitHarness;
  return Complain(kExitHarness, std::string("cannot write to standard output: ") +
                                    std::strerror(lost_output_errno));
}

}  // namespace attest
