#include "properties/bench/cpu_time.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string>

namespace attest {
namespace {

double SecondsOf(const std::string& process) {
  double nanoseconds = 0;  // the first number there
  std::ifstream("/proc/" + process + "/schedstat") >> nanoseconds;
  double seconds = 1e-9 * nanoseconds;
  std::ifstream children("/proc/" + process + "/task/" + process + "/children");
  for (std::string child; children >> child;) seconds += SecondsOf(child);
  return seconds;
}

}  // namespace

double ThreadCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double CpuSecondsWithChildren() {
  return SecondsOf(std::to_string(getpid()));
}

}  // namespace attest
