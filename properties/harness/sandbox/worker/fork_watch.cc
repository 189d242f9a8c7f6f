#include "properties/harness/sandbox/worker/fork_watch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "properties/harness/sandbox/children.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

// A copy that sleeps for so long is not about to end or to become another program.
constexpr std::chrono::milliseconds kAsleep{20};
// One that wants to run may be kept from it by a busy machine, and is given longer.
constexpr std::chrono::milliseconds kAwake{2000};

bool HasChildren() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

std::string ProgramOf(pid_t pid) {
  char path[32], target[4096];
  std::snprintf(path, sizeof path, "/proc/%d/exe", pid);
  const ssize_t size = ::readlink(path, target, sizeof target);
  return size <= 0 ? "" : std::string(target, static_cast<size_t>(size));
}

struct Copies {
  std::set<pid_t> pids;
  bool is_one_awake = false;
};

// The children that are copies of this process and have not ended, but for those known already.
Copies NewCopies(const std::set<pid_t>& known) {
  const std::string own_program = ProgramOf(::getpid());
  Copies copies;
  if (own_program.empty()) return copies;
  for (const pid_t child : ChildrenOf(::getpid())) {
    const auto process = known.count(child) == 0 ? StateOf(child) : std::nullopt;
    if (!process || process->state == 'Z' || ProgramOf(child) != own_program) continue;
    copies.pids.insert(child);
    copies.is_one_awake = copies.is_one_awake || process->state == 'R';
  }
  return copies;
}

}  // namespace

ForkWatch::ForkWatch() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int ForkWatch::CountNew() {
  if (!HasChildren()) return 0;
  const auto begin = Clock::now();
  auto asleep_since = begin;
  Copies added = NewCopies(known_);
  while (!added.pids.empty() && Clock::now() < begin + kAwake) {
    if (added.is_one_awake) asleep_since = Clock::now();
    if (Clock::now() >= asleep_since + kAsleep) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    added = NewCopies(known_);
  }
  known_.insert(added.pids.begin(), added.pids.end());
  return static_cast<int>(added.pids.size());
}

}  // namespace attest
