// A file descriptor that closes itself.
#ifndef ATTEST_HARNESS_SANDBOX_FILE_DESCRIPTOR_H_
#define ATTEST_HARNESS_SANDBOX_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace attest {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_FILE_DESCRIPTOR_H_
