#include "properties/harness/sandbox/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

using std::chrono::milliseconds;

// Longest reply: a contract as JSON text is a few kilobytes.
constexpr size_t kMaxLine = 1 << 20;
// A fork of the kernel may hold the socket open after the worker's death, so that no end of file
// arrives: a waiting harness looks this often whether the worker lives.
constexpr milliseconds kLookInterval{50};
// Read from an endless printer before looking at the control socket and the deadline again.
constexpr int kMaxDrainReads = 8;
// Source descriptors are moved up here, out of the way of the numbers they get in the worker.
constexpr int kFirstSourceFd = 10;

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

// When the last writer of the lifeline dies, the operating system signals the readers' owner: here
// SIGKILL to the worker's whole group. (PR_SET_PDEATHSIG would also fire when merely the thread
// that started the worker ends, and would spare what the kernel forked.)
bool TieToOurLife(int read_end, pid_t group) {
  return ::fcntl(read_end, F_SETSIG, SIGKILL) == 0 && ::fcntl(read_end, F_SETOWN, -group) == 0 &&
         ::fcntl(read_end, F_SETFL, O_ASYNC) == 0;
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

// A session of its own (so that one kill reaches all forks), default signals, no other descriptors.
int Spawn(std::vector<std::string> command, int control, int arena, int printed, int lifeline,
          pid_t* pid) {
  SpawnPlan plan;
  sigset_t all, none;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&plan.attributes, &all);
  ::posix_spawnattr_setsigmask(&plan.attributes, &none);
  ::posix_spawnattr_setflags(&plan.attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  ::posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  const std::array<std::pair<int, int>, 5> moves = {{{printed, 1},
                                                     {printed, 2},
                                                     {control, kControlFd},
                                                     {arena, kArenaFd},
                                                     {lifeline, kLifelineFd}}};
  for (const auto& [from, to] : moves) ::posix_spawn_file_actions_adddup2(&plan.actions, from, to);
  ::posix_spawn_file_actions_addclosefrom_np(&plan.actions, kLifelineFd + 1);
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return ::posix_spawnp(pid, argv[0], &plan.actions, &plan.attributes, argv.data(), environ);
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

WorkerProcess::WorkerProcess(pid_t pid, FileDescriptor control, FileDescriptor printed,
                             FileDescriptor lifeline, OutputTail* output)
    : pid_(pid),
      control_(std::move(control)),
      printed_(std::move(printed)),
      lifeline_(std::move(lifeline)),
      output_(output) {}

tl::expected<std::unique_ptr<WorkerProcess>, std::string> WorkerProcess::Start(
    const std::vector<std::string>& command, int arena_fd, OutputTail* output) {
  Ends control = MakeSocketPair();
  Ends printed = MakePipe(/*we_read=*/true);
  Ends lifeline = MakePipe(/*we_read=*/false);
  FileDescriptor arena(::fcntl(arena_fd, F_DUPFD_CLOEXEC, kFirstSourceFd));
  for (const FileDescriptor* fd : {&control.ours, &control.theirs, &printed.ours, &printed.theirs,
                                   &lifeline.ours, &lifeline.theirs, &arena})
    if (!fd->valid())
      return tl::unexpected(fmt::format("cannot start a worker process: no file descriptors: {}",
                                        std::strerror(errno)));
  ::fcntl(printed.ours.get(), F_SETFL, O_NONBLOCK);
  pid_t pid = -1;
  const int error = Spawn(command, control.theirs.get(), arena.get(), printed.theirs.get(),
                          lifeline.theirs.get(), &pid);
  if (error != 0)
    return tl::unexpected(
        fmt::format("cannot start the worker {}: {}", command.front(), std::strerror(error)));
  const bool tied = TieToOurLife(lifeline.theirs.get(), pid);
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(
      pid, std::move(control.ours), std::move(printed.ours), std::move(lifeline.ours), output));
  if (!tied) return tl::unexpected(std::string("cannot tie the worker's life to this process"));
  return worker;
}

WorkerProcess::~WorkerProcess() {
  if (!buried_) Bury(milliseconds{0});
}

bool WorkerProcess::HasEnded() const {
  siginfo_t info{};
  // Not reaped yet: the process id, and with it the group, stays ours until Bury.
  const int rc = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return rc != 0 || info.si_pid == pid_;
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
bool WorkerProcess::ReadControl() {
  std::array<char, 16 * 1024> buffer;
  const ssize_t got = ::recv(control_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0) received_.append(buffer.data(), static_cast<size_t>(got));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

WorkerProcess::Received WorkerProcess::Receive(std::string* line, Clock::time_point deadline) {
  while (!TakeLine(line)) {
    if (received_.size() > kMaxLine) return Received::kOversized;
    pollfd wait[] = {{control_.get(), POLLIN, 0}, {printed_.get(), POLLIN, 0}};
    if (::poll(wait, 2, PollTimeout(deadline)) == 0) {
      // Dead, yet a fork holds the socket open: what it said before lies in the socket.
      if (HasEnded() && (!ReadControl() || received_.find('\n') == std::string::npos))
        return Received::kGone;
      if (Clock::now() >= deadline) return Received::kTimeout;
      continue;
    }
    if (wait[1].revents != 0) DrainOutput();
    if (wait[0].revents != 0 && !ReadControl()) return Received::kGone;
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
  ::kill(-pid_, SIGKILL);
  int status = 0;
  pid_t reaped = -1;
  do reaped = ::waitpid(pid_, &status, 0);
  while (reaped < 0 && errno == EINTR);
  DrainOutput();
  buried_ = true;
  // A process that was dying when the kill came keeps its own cause of death.
  const bool killed = !ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (killed || reaped != pid_) return {};
  if (WIFSIGNALED(status)) return {Death::Kind::kSignaled, WTERMSIG(status)};
  return {Death::Kind::kExited, WEXITSTATUS(status)};
}

}  // namespace attest
