#include "properties/harness/sandbox/children.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace attest {

std::optional<ProcessState> StateOf(pid_t pid) {
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  const ssize_t size = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (size <= 0) return std::nullopt;
  text[size] = 0;
  // "pid (name) state parent group session": the name may hold anything, so read from the last ')'.
  const char* rest = std::strrchr(text, ')');
  ProcessState process;
  if (rest == nullptr || std::sscanf(rest + 1, " %c %d %*d %d", &process.state, &process.parent,
                                     &process.session) != 3)
    return std::nullopt;
  return process;
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (folder == nullptr) return children;
  while (const dirent* entry = ::readdir(folder.get())) {
    const auto pid = static_cast<pid_t>(std::atoi(entry->d_name));  // 0 where it is no number
    const auto process = pid > 0 ? StateOf(pid) : std::nullopt;
    if (process && process->parent == parent) children.push_back(pid);
  }
  return children;
}

}  // namespace attest
