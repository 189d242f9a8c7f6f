// Properties on kernels in this very process, for fuzz targets: the fuzzer needs the kernel's
// coverage and speed, and sanitizers watch its memory. What is found is shrunk and written as a
// TOML case, which `attest replay` confirms in a worker.
#ifndef ATTEST_FUZZ_IN_PROCESS_H_
#define ATTEST_FUZZ_IN_PROCESS_H_

#include <string>

#include "impl/abi/testing/direct_call.h"
#include "properties/property.h"

namespace attest {

// A kernel that keeps attest's own conventions, and its name on the command line.
struct FuzzedKernel {
  std::string name;  // "tiled?tile=16"
  DirectKernel kernel;
  Contract contract;
};

// Creates a built-in kernel; one that cannot be created ends the process, for nothing can be
// fuzzed.
FuzzedKernel OpenFuzzedKernel(const std::string& name, const attest_kernel_table* table,
                              const std::vector<std::pair<std::string, std::string>>& options);

// The verdict of one property on one case, as RunCase would give it.
Verdict JudgeInProcess(const Property& property, const Case& c, const FuzzedKernel& kernel);

// Judges, and on a failure with a signature that has no file yet in the findings folder
// (environment variable ATTEST_FINDINGS, default "attest-findings"): shrinks, writes the case
// there, prints the sentence and the replay command, and aborts, so that libFuzzer stops. Known
// signatures are passed over, so that a restarted run looks for new ones.
void FuzzCase(const Property& property, const Case& c, const FuzzedKernel& kernel);

}  // namespace attest

#endif  // ATTEST_FUZZ_IN_PROCESS_H_
