// The kill matrix in words: a line a kernel and a summary for the terminal, a Markdown page with the matrix.
#ifndef ATTEST_HARNESS_POWER_POWER_TEXT_H_
#define ATTEST_HARNESS_POWER_POWER_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "properties/harness/power/kill.h"
#include "properties/harness/power/power_summary.h"

namespace attest {

// What was asked for, and what it cost.
struct PowerInfo {
  std::string command;
  std::string plan;
  uint64_t seed = 0;
  // Every property was run on every subject; else nothing is said of properties, which may be idle for
  // want of a chance.
  bool is_matrix = false;
  bool is_of_models = false;  // else of kernels
  double cpu_seconds = 0;
};

// One line, with its end.
std::string KillLine(const Kill& kill);

// Some lines: totals, by kind, the properties that stand out, and what is amiss.
std::string SummaryText(const PowerInfo& info, const PowerSummary& summary);

// What makes the run fail, a line each; empty = nothing.
std::vector<std::string> Complaints(const PowerInfo& info, const PowerSummary& summary);

// The page: summary, a row a kernel, and the matrix, a letter a property.
std::string PowerMarkdown(const PowerInfo& info, const PowerSummary& summary,
                          const std::vector<Kill>& kills);

}  // namespace attest

#endif  // ATTEST_HARNESS_POWER_POWER_TEXT_H_
