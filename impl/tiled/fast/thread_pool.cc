#include "impl/tiled/fast/thread_pool.h"

#include <algorithm>
#include <utility>

namespace attest::tiled_fast {

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  work_.notify_all();
}

void ThreadPool::Run(int wanted, const std::function<void(int)>& body) {
  const int slots = std::min(threads_, wanted);
  const std::unique_lock busy(busy_, std::try_to_lock);
  if (slots <= 1 || !busy) return body(0);
  Start(slots - 1);
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    slots_ = slots;
    running_ = static_cast<int>(others_.size());
    ++round_;
  }
  work_.notify_all();
  Call(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// Each takes part in the rounds that begin after it has started.
void ThreadPool::Start(int count) {
  while (static_cast<int>(others_.size()) < count) {
    const int slot = static_cast<int>(others_.size()) + 1;
    others_.emplace_back([this, slot, seen = round_]() mutable {
      for (std::unique_lock lock(mutex_);; ++seen) {
        work_.wait(lock, [&] { return is_over_ || round_ != seen; });
        if (is_over_) return;
        lock.unlock();
        if (slot < slots_) Call(slot);
        lock.lock();
        if (--running_ == 0) done_.notify_one();
      }
    });
  }
}

void ThreadPool::Call(int slot) {
  try {
    (*body_)(slot);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
}

}  // namespace attest::tiled_fast
