// What a fuzzing process tells whoever started it: the file that the environment variable
// ATTEST_FUZZ_STATUS names holds one JSON object, written anew about every two seconds and at exit.
#ifndef ATTEST_FUZZ_STATUS_H_
#define ATTEST_FUZZ_STATUS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace attest {

// What the process has seen since it began.
struct FuzzFigures {
  int64_t executions = 0;
  int64_t findings = 0;
  int64_t bins = 0;            // distinct ones
  double worst_ratio = 0;      // largest error / bound of out
  double worst_lse_ratio = 0;  // and of the lse
};
FuzzFigures& Figures();

// {"executions":N,"seconds":S,"bins":B,"worst_ratio":R,"worst_lse_ratio":L,"findings":F}. The ratios
// are 0 where GuideByError does not run.
std::string StatusJson();

// Call at each input: counts it, and writes the file when it is time.
void CountExecution();
// Call before a process ends that runs no exit handlers.
void WriteStatus();

// Replaces a file at once: a reader sees the old text or the new. False where it cannot be written.
bool ReplaceFile(const std::filesystem::path& path, std::string_view text);

}  // namespace attest

#endif  // ATTEST_FUZZ_STATUS_H_
