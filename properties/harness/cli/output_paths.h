// What a command reads and what it is to write, looked at before anything runs: no output may overwrite
// an input or another output, and each must lie where this user can write. Every command that writes
// files asks here first.
#ifndef ATTEST_HARNESS_CLI_OUTPUT_PATHS_H_
#define ATTEST_HARNESS_CLI_OUTPUT_PATHS_H_

#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace attest {

// A file; or a folder that is made where it is absent, with the files that are to lie in it.
struct OutputPath {
  std::string option;  // as the user writes it: "--json"
  std::string path;
  bool is_folder = false;
  std::vector<std::string> names{};  // of a folder's files
};

// `reads` are files, or folders that are read whole; what is not there is no error here. The error is one line:
// the option, the path, how to mend it. Leaves nothing behind, whatever the answer.
tl::expected<void, std::string> CheckOutputs(const std::vector<std::string>& reads,
                                             const std::vector<OutputPath>& writes);

// The files that kernels are read from, by their names on the command line: libraries, sources in Python and
// JavaScript. Names that mean nothing are left out.
std::vector<std::string> FilesOfKernels(const std::vector<std::string>& kernels,
                                        const std::vector<std::string>& optional_kernels = {});

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_OUTPUT_PATHS_H_
