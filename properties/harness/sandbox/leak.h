// Finds kernels whose memory grows with each call. Growth alone proves nothing: caches fill, pools grow,
// allocators keep what they had. So growth only raises a suspicion, and what convicts is an experiment: one
// call, the same each time, made so often in three blocks that a cache has long seen it; the memory grows
// by as much in each block, and goes on to in a long run after them. One detector serves one session, and convicts once.
#ifndef ATTEST_HARNESS_SANDBOX_LEAK_H_
#define ATTEST_HARNESS_SANDBOX_LEAK_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "properties/harness/sandbox/call.h"
#include "properties/harness/sandbox/file_descriptor.h"

namespace attest {

class LeakDetector {
 public:
  // Looks at this process from now on: a worker that has just started.
  void Follow(pid_t worker);

  // Whether memory has grown so much since the first look at this worker that it is worth the experiment.
  // `calls` counts those made in the session so far. One small read of /proc.
  bool Suspects(int64_t calls);

  // The experiment. `repeat` makes the same call so many times, and is false where that did not go well. A
  // fault where the memory grows with each call; else the suspicion is raised to twice the growth.
  std::optional<Fault> Examine(const std::function<bool(int64_t times)>& repeat);

 private:
  std::optional<uint64_t> Bytes() const;

  FileDescriptor statm_;
  std::optional<uint64_t> first_bytes_;  // at the first look
  int64_t first_calls_ = 0;
  uint64_t suspicious_bytes_ = uint64_t{32} << 20;
  int64_t calls_ = 0;  // since the first look
  bool convicted_ = false;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_LEAK_H_
