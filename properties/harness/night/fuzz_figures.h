// What fuzz targets have done, as they say in their status files and logs, and added up over a night.
#ifndef ATTEST_HARNESS_NIGHT_FUZZ_FIGURES_H_
#define ATTEST_HARNESS_NIGHT_FUZZ_FIGURES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace attest {

struct FuzzFigures {
  int64_t executions = 0;
  double seconds = 0;      // of processes, added up
  int64_t bins = 0;        // the most that one process has seen
  int64_t coverage = 0;    // likewise: libFuzzer's "cov"
  double worst_ratio = 0;  // error / bound, of the output
  double worst_lse_ratio = 0;

  void Add(const FuzzFigures& part);
};

// Of one process: what its status file (ATTEST_FUZZ_STATUS) and its log say. Where there is no status, the
// log alone.
FuzzFigures ReadFigures(const std::string& status_path, const std::string& log_path);

// The parts of it; text that cannot be read gives nothing.
FuzzFigures FiguresOfStatus(std::string_view json);
FuzzFigures FiguresOfLog(std::string_view log);

// What the log of a process that ended by itself gives as the reason: "AddressSanitizer:
// heap-buffer-overflow", "libFuzzer: timeout", ...; "" where it gives none.
std::string ReasonOfEnd(std::string_view log);

// What tells two such ends apart, for a signature: the sanitizer's kind of error and the function that it names,
// "heap-buffer-overflow-in-Attend"; without a function the file, and "" where the log gives no reason. Never
// addresses, lines or numbers.
std::string ClassOfEnd(std::string_view log);

// The last bytes of a file, for logs may be long; "" where there is none.
std::string TailOf(const std::string& path, size_t bytes = 64 * 1024);

// As one JSON object, and back.
std::string ToJson(const FuzzFigures& figures);

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_FUZZ_FIGURES_H_
