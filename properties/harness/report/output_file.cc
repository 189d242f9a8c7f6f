#include "properties/harness/report/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace attest {
namespace {

constexpr mode_t kFileMode = 0666;  // the user's umask decides

bool IsSpecialFile(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

// How to mend it, for the errors that people meet.
const char* Remedy(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "create the folder first";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a place that can be written to";
    case ENOSPC:
    case EDQUOT:
      return "make room and run again";
    case EISDIR:
      return "name a file, not a folder";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case EWOULDBLOCK:
      return "another run is writing it; choose another name";
    default:
      return "choose another place";
  }
}

}  // namespace

std::string PartialOf(const std::string& path) {
  return path + ".partial";
}

std::string CannotWrite(const std::string& path, int error) {
  return fmt::format("cannot write {}: {}: {}", path, std::strerror(error), Remedy(error));
}

tl::expected<std::unique_ptr<OutputFile>, std::string> OutputFile::Open(const std::string& path) {
  std::unique_ptr<OutputFile> file(new OutputFile);
  file->path_ = path;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return tl::unexpected(CannotWrite(path, EISDIR));
  }
  if (!IsSpecialFile(path)) file->partial_ = PartialOf(path);
  const std::string& target = file->partial_.empty() ? path : file->partial_;
  file->descriptor_ = open(target.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kFileMode);
  if (file->descriptor_ < 0) return tl::unexpected(CannotWrite(path, errno));
  if (file->partial_.empty()) return file;
  if (flock(file->descriptor_, LOCK_EX | LOCK_NB) != 0 || ftruncate(file->descriptor_, 0) != 0) {
    const int error = errno;
    file->partial_.clear();  // it is the other run's
    return tl::unexpected(CannotWrite(path, error));
  }
  return file;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

tl::expected<void, std::string> OutputFile::Fail(int error) {
  error_ = CannotWrite(path_, error);
  Discard();
  return tl::unexpected(error_);
}

tl::expected<void, std::string> OutputFile::Append(std::string_view text) {
  if (!error_.empty()) return tl::unexpected(error_);
  while (!text.empty()) {
    const ssize_t written = write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

tl::expected<void, std::string> OutputFile::Commit() {
  if (!error_.empty()) return tl::unexpected(error_);
  if (partial_.empty()) return {};
  // A disk may report that it is full only here.
  if (fsync(descriptor_) != 0) return Fail(errno);
  if (rename(partial_.c_str(), path_.c_str()) != 0) return Fail(errno);
  partial_.clear();
  return {};
}

void OutputFile::Discard() {
  if (!partial_.empty()) unlink(partial_.c_str());
  partial_.clear();
}

tl::expected<void, std::string> WriteFile(const std::string& path, std::string_view text) {
  auto file = OutputFile::Open(path);
  if (!file) return tl::unexpected(file.error());
  return (*file)->Append(text).and_then([&] { return (*file)->Commit(); });
}

}  // namespace attest
