// One ONNX vector on one kernel: its verdict, and its line of JSON.
#ifndef ATTEST_HARNESS_CLI_VECTOR_RESULT_H_
#define ATTEST_HARNESS_CLI_VECTOR_RESULT_H_

#include <string>
#include <vector>

#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/judge/verdict.h"
#include "properties/harness/vectors/vectors.h"

namespace attest {

struct VectorResult {
  std::string name;
  Verdict verdict;
};

// The kernel must match the reference within the bound W, and the values that the standard stores
// within 2 W: those were computed in the same precision, so each of the two may be W from the
// truth.
Verdict JudgeVector(const VectorCase& vector, OpenedKernel& kernel);

// The command that runs this vector alone.
std::string VectorCommand(const std::string& program, const std::string& folder,
                          const std::string& name, const std::string& kernel);

// Each returns one line with its '\n'; `type` is run, vector and summary.
std::string VectorRunLine(const std::string& command, const std::string& kernel,
                          const OpenedKernel& opened);
std::string VectorResultLine(const VectorResult& result, const std::string& command);
std::string VectorSummaryLine(const std::vector<VectorResult>& results, int exit_code);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_VECTOR_RESULT_H_
