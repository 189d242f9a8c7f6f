#include "properties/harness/sandbox/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/sandbox/children.h"
#include "properties/harness/sandbox/locate.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

// Longest reply: a contract as JSON text is a few kilobytes.
constexpr size_t kMaxLine = 1 << 20;
// A fork of the kernel may hold the socket open after the worker's death, so that no end of file
// arrives: a waiting harness looks this often whether the worker lives.
constexpr milliseconds kLookInterval{50};
// How long a wait for the worker looks at the control socket alone.
constexpr timeval kFirstWait{0, 2000};
// Read from an endless printer before looking at the control socket and the deadline again.
constexpr int kMaxDrainReads = 8;
// Source descriptors are moved up here, out of the way of the numbers they get in the worker.
constexpr int kFirstSourceFd = 10;
// How long a guard may take to start the worker, on a busy machine.
constexpr milliseconds kStartLimit{20000};
// How long a guard may take to kill what is left, before it is taken for stopped.
constexpr milliseconds kGuardLimit{3000};
// Rounds of killing orphans, a millisecond apart.
constexpr int kOrphanRounds = 3000;

struct Ends {
  FileDescriptor ours, theirs;
};

FileDescriptor MoveUp(FileDescriptor fd) {
  return FileDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstSourceFd));
}

// A pair of descriptors, close-on-exec; both invalid on failure, with errno set.
Ends MakeSocketPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return {};
  return {FileDescriptor(fds[0]), MoveUp(FileDescriptor(fds[1]))};
}

Ends MakePipe(bool we_read) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return {};
  FileDescriptor ours(fds[we_read ? 0 : 1]), theirs(fds[we_read ? 1 : 0]);
  return {std::move(ours), MoveUp(std::move(theirs))};
}

// The guards of this process that have not been reaped. Held locked while one is started, so that none
// is taken for an orphan.
struct Guards {
  std::mutex mutex;
  std::set<pid_t> pids;
};
Guards& TheGuards() {
  static Guards guards;
  return guards;
}

// Kills what has come to this process as its subreaper: children in a session other than its own that
// are no guards. They are there only where a kernel has ended its guard.
void EndOrphans() {
  for (int round = 0; round < kOrphanRounds; ++round) {
    std::vector<pid_t> orphans;
    {
      const std::lock_guard lock(TheGuards().mutex);
      for (const pid_t child : ChildrenOf(::getpid())) {
        const auto state = StateOf(child);
        const bool is_ours = !state || state->session == ::getsid(0);
        if (!is_ours && TheGuards().pids.count(child) == 0) orphans.push_back(child);
      }
    }
    if (orphans.empty()) return;
    for (const pid_t orphan : orphans) ::kill(orphan, SIGKILL);
    std::this_thread::sleep_for(milliseconds{1});
    for (const pid_t orphan : orphans) ::waitpid(orphan, nullptr, WNOHANG);
  }
}

// posix_spawn's two objects, destroyed on every path.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

// The guard, in a session of its own (so that no key pressed at a terminal reaches it), with default
// signals and no other descriptors.
int Spawn(std::vector<std::string> command, int control, int arena, int printed, int lifeline,
          int report, pid_t* pid) {
  SpawnPlan plan;
  sigset_t all, none;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&plan.attributes, &all);
  ::posix_spawnattr_setsigmask(&plan.attributes, &none);
  ::posix_spawnattr_setflags(&plan.attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  ::posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  const std::array<std::pair<int, int>, 6> moves = {{{printed, 1},
                                                     {printed, 2},
                                                     {control, kControlFd},
                                                     {arena, kArenaFd},
                                                     {lifeline, kLifelineFd},
                                                     {report, kGuardReportFd}}};
  for (const auto& [from, to] : moves) ::posix_spawn_file_actions_adddup2(&plan.actions, from, to);
  ::posix_spawn_file_actions_addclosefrom_np(&plan.actions, kGuardReportFd + 1);
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::lock_guard lock(TheGuards().mutex);
  const int error =
      ::posix_spawn(pid, argv[0], &plan.actions, &plan.attributes, argv.data(), environ);
  if (error == 0) TheGuards().pids.insert(*pid);
  return error;
}

// The guard's next record; nullopt where there is none and the guard is gone, or none comes in time.
template <typename Record>
std::optional<Record> ReadRecord(int report, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    Record record;
    const ssize_t got = ::read(report, &record, sizeof record);  // so small a write is whole
    if (got == sizeof record) return record;
    if (got >= 0 || (errno != EAGAIN && errno != EINTR) || Clock::now() >= deadline)
      return std::nullopt;
    pollfd wait{report, POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(kLookInterval.count()));
  }
}

int PollTimeout(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp(left, milliseconds{0}, kLookInterval).count());
}

}  // namespace

void OutputTail::Append(std::string_view text) {
  text_.append(text);
  if (text_.size() > 2 * kOutputBytes) text_.erase(0, text_.size() - kOutputBytes);
}

std::string OutputTail::Take() {
  if (text_.size() > kOutputBytes) text_.erase(0, text_.size() - kOutputBytes);
  return std::exchange(text_, {});
}

// Our ends of what connects us.
struct WorkerProcess::Pipes {
  FileDescriptor control, printed, lifeline, report;
};

WorkerProcess::WorkerProcess(pid_t guard, Pipes pipes, OutputTail* output)
    : guard_(guard),
      control_(std::move(pipes.control)),
      printed_(std::move(pipes.printed)),
      lifeline_(std::move(pipes.lifeline)),
      report_(std::move(pipes.report)),
      output_(output) {}

tl::expected<std::unique_ptr<WorkerProcess>, std::string> WorkerProcess::Start(
    const std::vector<std::string>& command, int arena_fd, OutputTail* output) {
  Ends control = MakeSocketPair();
  Ends printed = MakePipe(/*we_read=*/true);
  Ends lifeline = MakePipe(/*we_read=*/false);
  Ends report = MakePipe(/*we_read=*/true);
  FileDescriptor arena(::fcntl(arena_fd, F_DUPFD_CLOEXEC, kFirstSourceFd));
  for (const FileDescriptor* fd :
       {&control.ours, &control.theirs, &printed.ours, &printed.theirs, &lifeline.ours,
        &lifeline.theirs, &report.ours, &report.theirs, &arena})
    if (!fd->valid())
      return tl::unexpected(fmt::format("cannot start a worker process: no file descriptors: {}",
                                        std::strerror(errno)));
  for (const FileDescriptor* fd : {&printed.ours, &report.ours})
    ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  ::setsockopt(control.ours.get(), SOL_SOCKET, SO_RCVTIMEO, &kFirstWait, sizeof kFirstWait);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<std::string> guarded = command;
  guarded.insert(guarded.begin(), GuardProgram().string());
  const auto failed = [](const std::string& program, int error) {
    return tl::unexpected(
        fmt::format("cannot start the worker {}: {}", program, std::strerror(error)));
  };
  pid_t pid = -1;
  const int error = Spawn(guarded, control.theirs.get(), arena.get(), printed.theirs.get(),
                          lifeline.theirs.get(), report.theirs.get(), &pid);
  if (error != 0) return failed(guarded.front(), error);
  std::unique_ptr<WorkerProcess> worker(
      new WorkerProcess(pid,
                        {std::move(control.ours), std::move(printed.ours), std::move(lifeline.ours),
                         std::move(report.ours)},
                        output));
  report.theirs.Close();  // or the guard's end would not be seen
  const auto started = ReadRecord<GuardStarted>(worker->report_.get(), kStartLimit);
  if (!started) return failed(command.front(), ECHILD);
  if (started->error != 0) return failed(command.front(), started->error);
  worker->worker_ = started->worker;
  return worker;
}

WorkerProcess::~WorkerProcess() {
  if (!buried_) Bury(milliseconds{0});
}

bool WorkerProcess::HasEnded() const {
  siginfo_t info{};
  // The guard ends when the worker has. Not reaped yet: its process id stays ours until Bury.
  const int rc = ::waitid(P_PID, static_cast<id_t>(guard_), &info, WEXITED | WNOHANG | WNOWAIT);
  return rc != 0 || info.si_pid == guard_;
}

bool WorkerProcess::Send(std::string line, Clock::time_point deadline) {
  line.push_back('\n');
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent =
        ::send(control_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      rest.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    if (Clock::now() >= deadline || HasEnded()) return false;
    pollfd wait[] = {{control_.get(), POLLOUT, 0}, {printed_.get(), POLLIN, 0}};
    ::poll(wait, 2, PollTimeout(deadline));
    if (wait[1].revents != 0) DrainOutput();
  }
  return true;
}

bool WorkerProcess::TakeLine(std::string* line) {
  const size_t end = received_.find('\n');
  if (end == std::string::npos) return false;
  line->assign(received_, 0, end);
  received_.erase(0, end + 1);
  return true;
}

// False at the end of the stream.
bool WorkerProcess::ReadControl(int flags) {
  std::array<char, 16 * 1024> buffer;
  const ssize_t got = ::recv(control_.get(), buffer.data(), buffer.size(), flags);
  if (got > 0) received_.append(buffer.data(), static_cast<size_t>(got));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

WorkerProcess::Received WorkerProcess::Receive(std::string* line, Clock::time_point deadline) {
  // A quick answer costs one system call. What the worker prints meanwhile waits in the pipe.
  if (received_.empty() && !ReadControl(0)) return Received::kGone;
  while (!TakeLine(line)) {
    if (received_.size() > kMaxLine) return Received::kOversized;
    pollfd wait[] = {{control_.get(), POLLIN, 0}, {printed_.get(), POLLIN, 0}};
    if (::poll(wait, 2, PollTimeout(deadline)) == 0) {
      // Dead, yet a fork holds the socket open: what it said before lies in the socket.
      if (HasEnded() && (!ReadControl(MSG_DONTWAIT) || received_.find('\n') == std::string::npos))
        return Received::kGone;
      if (Clock::now() >= deadline) return Received::kTimeout;
      continue;
    }
    if (wait[1].revents != 0) DrainOutput();
    if (wait[0].revents != 0 && !ReadControl(MSG_DONTWAIT)) return Received::kGone;
    if (wait[0].revents == 0 && Clock::now() >= deadline) return Received::kTimeout;
  }
  return Received::kLine;
}

void WorkerProcess::DrainOutput() {
  std::array<char, 32 * 1024> buffer;
  for (int i = 0; printed_.valid() && i < kMaxDrainReads; ++i) {
    const ssize_t got = ::read(printed_.get(), buffer.data(), buffer.size());
    if (got > 0) output_->Append({buffer.data(), static_cast<size_t>(got)});
    // Closed by the worker: poll would report it for ever.
    if (got == 0) printed_.Close();
    if (got < static_cast<ssize_t>(buffer.size())) return;
  }
}

// Waits until the guard has ended, by force where a kernel has stopped it. Its status, as waitpid gives.
int WorkerProcess::WaitForGuard() {
  const auto deadline = Clock::now() + kGuardLimit;
  auto pause = std::chrono::microseconds{50};
  while (!HasEnded() && Clock::now() < deadline) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds{2000});
  }
  if (!HasEnded()) ::kill(guard_, SIGKILL);
  int status = 0;
  while (::waitpid(guard_, &status, 0) < 0 && errno == EINTR) {
  }
  const std::lock_guard lock(TheGuards().mutex);
  TheGuards().pids.erase(guard_);
  return status;
}

Death WorkerProcess::Bury(milliseconds grace) {
  control_.Close();
  const auto deadline = Clock::now() + grace;
  auto pause = std::chrono::microseconds{50};
  bool ended = HasEnded();
  for (; !ended && Clock::now() < deadline; ended = HasEnded()) {
    DrainOutput();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds{2000});
  }
  lifeline_.Close();  // the guard kills now
  int status = WaitForGuard();
  if (const auto report = ReadRecord<GuardEnded>(report_.get(), milliseconds{0})) {
    status = report->status;
  } else {
    EndOrphans();
  }
  DrainOutput();
  buried_ = true;
  // A process that was dying when the kill came keeps its own cause of death.
  if (!ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return {};
  if (WIFSIGNALED(status)) return {Death::Kind::kSignaled, WTERMSIG(status)};
  return {Death::Kind::kExited, WEXITSTATUS(status)};
}

}  // namespace attest
