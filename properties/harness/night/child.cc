#include "properties/harness/night/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace attest {
namespace {

constexpr mode_t kFileMode = 0666;  // the user's umask decides
constexpr int kNotStarted = 127;    // as of a shell

// environ with the additions; a name that is added loses its old value.
std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    bool is_replaced = false;
    for (const auto& [name, value] : additions) {
      is_replaced = is_replaced || text.starts_with(name + "=");
    }
    if (!is_replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : additions) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: system calls only.
[[noreturn]] void Become(char* const* words, char* const* environment, int log, pid_t parent) {
  ::setpgid(0, 0);  // a key pressed at the terminal is the parent's to answer
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNotStarted);  // it has died meanwhile
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execve(words[0], words, environment);
  ::_exit(kNotStarted);
}

}  // namespace

tl::expected<std::unique_ptr<Child>, std::string> Child::Start(const ChildCommand& command) {
  const int log = ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kFileMode);
  if (log < 0) {
    return tl::unexpected(fmt::format("cannot write {}: {}", command.log, std::strerror(errno)));
  }
  std::vector<std::string> words = command.words;
  std::vector<std::string> environment = EnvironmentWith(command.environment);
  const std::vector<char*> argv = Pointers(words), envp = Pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) Become(argv.data(), envp.data(), log, parent);
  const int error = errno;
  ::close(log);
  if (pid < 0) {
    return tl::unexpected(
        fmt::format("cannot start {}: {}", command.words.front(), std::strerror(error)));
  }
  ::setpgid(pid, pid);  // whoever of the two comes first
  return std::unique_ptr<Child>(new Child(pid));
}

Child::~Child() {
  if (Ended()) return;
  Kill();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> Child::Ended() {
  if (status_) return status_;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
  status_ = ended < 0 || WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (ended < 0) status_ = kNotStarted;
  return status_;
}

void Child::Stop() {
  if (!status_) ::kill(pid_, SIGTERM);
}

void Child::Kill() {
  if (!status_) ::kill(-pid_, SIGKILL);
}

}  // namespace attest
