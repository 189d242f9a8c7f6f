// attest_guard: stands between the harness and one worker, starts it, and sees to it that nothing of
// it outlives the session: no fork, no daemon in a session of its own, however the harness ends.
// attest starts it as `attest_guard WORKER ARGUMENT...`, with the worker's descriptors (worker_process.h)
// and kGuardReportFd. It is small, for it is started again after each death, and a process of its own,
// for it must outlive the harness: orphans come to it, because it is their nearest subreaper.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

#include "properties/harness/sandbox/children.h"
#include "properties/harness/sandbox/worker_process.h"

namespace attest {
namespace {

// Rounds of killing, a millisecond apart, against children that fork while they are being killed.
constexpr int kKillRounds = 5000;

void OnChild(int) {}

// When the last writer of the lifeline is gone, the operating system signals the readers' owner: here
// SIGKILL to the worker's whole group, should the kernel have ended this guard. (PR_SET_PDEATHSIG would
// also fire when merely the thread that started the worker ends, and would spare what it forked.)
void TieToHarness(pid_t group) {
  ::fcntl(kLifelineFd, F_SETSIG, SIGKILL);
  ::fcntl(kLifelineFd, F_SETOWN, -group);
  ::fcntl(kLifelineFd, F_SETFL, O_ASYNC);
}

// A session of its own (so that one kill reaches all plain forks), default signals.
int SpawnWorker(char** command, pid_t* worker) {
  posix_spawnattr_t attributes;
  sigset_t all, none;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawnp(worker, command[0], nullptr, &attributes, command, environ);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

// Reaps orphans; true once the worker has ended, which is left to be reaped.
bool WorkerHasEnded(pid_t worker) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno != EINTR;
    if (info.si_pid == 0) return false;
    if (info.si_pid == worker) return true;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

// Returns when the worker has ended or the harness has let go of the lifeline.
void Watch(pid_t worker) {
  sigset_t none;
  ::sigemptyset(&none);
  while (!WorkerHasEnded(worker)) {
    pollfd lifeline{kLifelineFd, POLLIN, 0};
    // SIGCHLD is let in while waiting only, so that none is missed.
    if (::ppoll(&lifeline, 1, nullptr, &none) > 0) return;
  }
}

// Kills the worker and all that came of it. Returns how the worker ended.
int EndAll(pid_t worker) {
  ::kill(-worker, SIGKILL);
  int status = 0;
  while (::waitpid(worker, &status, 0) < 0 && errno == EINTR) {
  }
  for (int round = 0; round < kKillRounds; ++round) {
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) break;
    for (const pid_t child : ChildrenOf(::getpid())) ::kill(child, SIGKILL);
    const timespec pause{0, 1000000};
    ::nanosleep(&pause, nullptr);
  }
  return status;
}

template <typename Report>
void Tell(const Report& report) {
  (void)!::write(kGuardReportFd, &report, sizeof report);
}

int Guard(char** command) {
  ::fcntl(kGuardReportFd, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  ::signal(SIGCHLD, OnChild);
  ::signal(SIGPIPE, SIG_IGN);
  GuardStarted started;
  started.error = SpawnWorker(command, &started.worker);
  if (started.error == 0) TieToHarness(started.worker);
  Tell(started);
  if (started.error != 0) return EXIT_FAILURE;
  // Else the harness would not see that the worker has closed them.
  for (const int fd : {1, 2, kControlFd, kArenaFd}) ::close(fd);
  Watch(started.worker);
  Tell(GuardEnded{EndAll(started.worker)});
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  if (argc < 2 || ::fcntl(attest::kGuardReportFd, F_GETFD) < 0) return 3;  // attest starts it
  return attest::Guard(argv + 1);
}
