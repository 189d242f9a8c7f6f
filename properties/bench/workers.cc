#include "properties/bench/workers.h"

#include <sched.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <attest/kernel.h>
#include <fmt/format.h>

#include "properties/bench/cpu_time.h"
#include "properties/harness/sandbox/session.h"

namespace attest {
namespace {

using Seconds = std::chrono::duration<double>;

// Given to the session at once; it makes round trips of 16 of them.
constexpr size_t kCallsAtOnce = 256;

// What most cases are like: small.
constexpr int64_t kHeads = 2, kLen = 4, kDim = 8;

CallTensor SmallTensor(int32_t role) {
  CallTensor tensor;
  tensor.role = role;
  tensor.shape = {1, kHeads, kLen, kDim};
  tensor.strides = {kHeads * kLen * kDim, kLen * kDim, kDim, 1};
  tensor.is_output = role >= ATTEST_ROLE_OUT;
  tensor.image.resize(static_cast<size_t>(kHeads * kLen * kDim) * sizeof(float));
  return tensor;
}

Call SmallCall() {
  Call call;
  call.options.push_back({ATTEST_OPTION_SCALE, /*is_float=*/true, 0, 0.125});
  for (const int32_t role : {ATTEST_ROLE_Q, ATTEST_ROLE_K, ATTEST_ROLE_V, ATTEST_ROLE_OUT})
    call.tensors.push_back(SmallTensor(role));
  return call;
}

// This process, and all that it starts from here on, to the core it is on. False where that fails.
bool StayOnThisCore() {
  const int core = sched_getcpu();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core >= 0) CPU_SET(static_cast<size_t>(core), &set);
  return core >= 0 && sched_setaffinity(0, sizeof set, &set) == 0;
}

// False where a call came back with a fault or another status than OK, which is printed.
bool RunAll(KernelSession& session, const std::vector<Call>& calls) {
  for (const CallResult& result : session.Run(calls)) {
    if (result.status == CallStatus::kOk && !result.fault) continue;
    fmt::print("{}\n", result.fault ? result.fault->detail : result.message);
    return false;
  }
  return true;
}

bool PrintWorker(std::string_view name, const std::string& kernel, double seconds) {
  fmt::print("{:12} ", name);
  const auto spec = ResolveKernel(kernel);
  auto session = spec ? KernelSession::Open(*spec) : tl::unexpected(spec.error());
  if (!session) {
    fmt::print("not measured: {}\n", session.error());
    return !kernel.ends_with(".so");  // an interpreter may be absent
  }
  const std::vector<Call> calls(kCallsAtOnce, SmallCall());
  if (!RunAll(**session, calls)) return false;  // warms up
  const SessionStats before = (*session)->stats();
  const double cpu_before = CpuSecondsWithChildren();
  const auto start = std::chrono::steady_clock::now();
  Seconds took{};
  while (took.count() < seconds) {
    if (!RunAll(**session, calls)) return false;
    took = std::chrono::steady_clock::now() - start;
  }
  const double cpu = CpuSecondsWithChildren() - cpu_before;
  const SessionStats& after = (*session)->stats();
  const auto done = static_cast<double>(after.calls - before.calls);
  fmt::print("{:10.0f} {:10.1f} {:12.0f} {:12.1f} {:11.1f}\n", done / took.count(),
             1e6 * took.count() / done, done / cpu, 1e6 * cpu / done,
             done / static_cast<double>(after.round_trips - before.round_trips));
  return true;
}

}  // namespace

bool PrintWorkers(const WorkersOptions& options) {
  if (!StayOnThisCore()) {
    fmt::print("cannot stay on one core\n");
    return false;
  }
  fmt::print(
      "Calls through each worker with a kernel that computes nothing: q, k, v and out of [1, {}, "
      "{}, "
      "{}];\nthis process and the worker on one core. CPU: time of both; all there is on an idle "
      "machine.\n\n",
      kHeads, kLen, kDim);
  fmt::print("{:12} {:>10} {:>10} {:>12} {:>12} {:>11}\n", "worker", "calls/s", "us/call",
             "calls/CPU s", "CPU us/call", "calls/trip");
  const std::string folder = ATTEST_NULL_KERNELS;
  bool good = PrintWorker("C++", folder + "/null.so", options.seconds);
  good &= PrintWorker("Python", "python:" + folder + "/null.py", options.seconds);
  good &= PrintWorker("Node", "node:" + folder + "/null.mjs", options.seconds);
  return good;
}

}  // namespace attest
