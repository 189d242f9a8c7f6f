// Small calls for the sandbox's tests, and sessions on its hostile plug-in.
#ifndef ATTEST_HARNESS_SANDBOX_TESTING_CALLS_H_
#define ATTEST_HARNESS_SANDBOX_TESTING_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "properties/harness/sandbox/session.h"

namespace attest {

// The path of a test plug-in ("hostile", "no_symbol").
std::string TestPlugin(const std::string& name);

// A dense tensor whose f32 elements are 1, 2, 3 ...; an output's content is ignored.
CallTensor DenseTensor(int32_t role, std::vector<int64_t> shape);

// q, k, v of [2, 2, 4, 4] and out: 256 bytes each, so that the slack in end mode is 0.
Call SmallCall();
CallTensor& TensorOf(Call* call, int32_t role);

// Opens the hostile plug-in's variant; a test fails where that fails.
std::unique_ptr<KernelSession> OpenHostile(const std::string& variant,
                                           const SessionOptions& options = {});

// Runs one call on a fresh session of a variant.
CallResult RunHostile(const std::string& variant, const Call& call = SmallCall(),
                      const SessionOptions& options = {});

// Direct children of this process, zombies included.
std::vector<int> ChildProcesses();

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_TESTING_CALLS_H_
