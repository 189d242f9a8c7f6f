#include "properties/bench/kernel_memory.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "properties/bench/allocations.h"
#include "properties/bench/kernel_calls.h"
#include "properties/harness/sandbox/file_descriptor.h"

namespace attest {
namespace {

constexpr double kMiB = 1 << 20;
// Enough to load the largest of the libraries and to make two calls of the longest shape at 20 GFLOP/s.
constexpr int kMostMilliseconds = 15000;

// A line of /proc/self/status, in MiB.
double StatusOf(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == key && status >> kib) return kib / 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

// From here on the peak is what is resident.
void ForgetPeak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

// What the child does and says: "=" and the numbers, or why it has none.
std::string MeasureHere(const std::string& name, int threads, const Problem& problem,
                        const Inputs& inputs) {
  const auto kernel = BenchKernel::Load(name, threads);
  if (!kernel) return kernel.error();
  const auto call = kernel->Prepare(problem, inputs);
  if (!call) return call.error();
  ForgetPeak();
  const double before = StatusOf("VmRSS:");
  if (const auto why = (*call)->Run()) return *why;
  const double resident = StatusOf("VmHWM:") - before;
  StartCountingAllocations();
  (*call)->Run();
  const Allocations allocations = StopCountingAllocations();
  return fmt::format("={} {} {}", resident, static_cast<double>(allocations.bytes) / kMiB,
                     allocations.count);
}

// All that comes before the other end is closed; nothing where that takes too long.
std::string ReadAll(const FileDescriptor& from) {
  std::string text;
  for (pollfd wait{from.get(), POLLIN, 0}; ::poll(&wait, 1, kMostMilliseconds) > 0;) {
    char some[256];
    const ssize_t size = ::read(from.get(), some, sizeof some);
    if (size <= 0) return text;
    text.append(some, static_cast<size_t>(size));
  }
  return "";
}

tl::expected<CallMemory, std::string> Parse(const std::string& text) {
  CallMemory memory;
  if (text.empty()) return tl::unexpected<std::string>("it takes too long, or dies");
  if (std::sscanf(text.c_str(), "=%lf %lf %ld", &memory.resident, &memory.allocated,
                  &memory.allocations) == 3) {
    return memory;
  }
  return tl::unexpected(text);
}

}  // namespace

tl::expected<CallMemory, std::string> MeasureMemory(const std::string& kernel, int threads,
                                                    const Problem& problem, const Inputs& inputs) {
  int ends[2];
  if (::pipe(ends) != 0) return tl::unexpected<std::string>("no pipe can be opened");
  FileDescriptor from(ends[0]), to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return tl::unexpected<std::string>("no process can be forked");
  if (child == 0) {
    const std::string text = MeasureHere(kernel, threads, problem, inputs);
    const ssize_t written = ::write(to.get(), text.data(), text.size());
    ::_exit(written < 0 ? 1 : 0);
  }
  to.Close();
  const std::string text = ReadAll(from);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return Parse(text);
}

}  // namespace attest
