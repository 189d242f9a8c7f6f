#include "properties/harness/night/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace attest {
namespace {

constexpr mode_t kFileMode = 0666;  // the user's umask decides

tl::unexpected<std::string> Refuse(const std::string& path, int error) {
  const char* remedy = error == EWOULDBLOCK
                           ? "another run is using it; wait for it, or name another folder"
                           : "choose a place that can be written to";
  return tl::unexpected(fmt::format("cannot write {}: {}: {}", path, std::strerror(error), remedy));
}

}  // namespace

tl::expected<std::unique_ptr<Journal>, std::string> Journal::Open(const std::string& path) {
  std::unique_ptr<Journal> journal(new Journal);
  journal->path_ = path;
  journal->file_ =
      FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kFileMode));
  if (!journal->file_.valid()) return Refuse(path, errno);
  if (::flock(journal->file_.get(), LOCK_EX | LOCK_NB) != 0) return Refuse(path, errno);
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    journal->lines_.push_back(text.substr(begin, end - begin));
  }
  if (::ftruncate(journal->file_.get(), static_cast<off_t>(begin)) != 0) return Refuse(path, errno);
  return journal;
}

tl::expected<void, std::string> Journal::Append(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(file_.get(), line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Refuse(path_, errno);
    line.remove_prefix(static_cast<size_t>(written));
  }
  if (::fdatasync(file_.get()) != 0) return Refuse(path_, errno);
  return {};
}

}  // namespace attest
