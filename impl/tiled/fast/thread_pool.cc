#include "impl/tiled/fast/thread_pool.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace attest::tiled_fast {

ThreadPool::ThreadPool(int threads)
    : threads_(std::max(threads, 1)),
      waits_awake_(static_cast<unsigned>(threads_) <= std::thread::hardware_concurrency()) {}

ThreadPool::~ThreadPool() {
  is_over_ = true;
  ++rounds_;
  rounds_.notify_all();
}

void ThreadPool::Run(int wanted, const std::function<void(int)>& body) {
  const int slots = std::min(threads_, wanted);
  const std::unique_lock busy(busy_, std::try_to_lock);
  if (slots <= 1 || !busy) return body(0);
  Start(slots - 1);
  body_ = &body;
  slots_ = slots;
  left_ = 0;
  places_ = slots - 1;
  ++rounds_;
  rounds_.notify_all();
  Call(0);
  const auto taken = static_cast<uint32_t>(slots - 1 - places_.exchange(0));
  for (uint32_t left = left_; left != taken; left = left_) Await(left_, left);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::Start(int count) {
  while (static_cast<int>(others_.size()) < count) {
    others_.emplace_back([this] { Serve(); });
  }
}

// What another thread does all its life.
void ThreadPool::Serve() {
  for (uint32_t seen = rounds_; !is_over_; seen = rounds_) {
    int free = places_;
    while (free > 0 && !places_.compare_exchange_weak(free, free - 1)) {
    }
    if (free > 0) {
      Call(slots_ - free);
      ++left_;
      left_.notify_one();
    } else {
      Await(rounds_, seen);
    }
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

// Returns once the word is no longer `old`. Awake for as long as it takes to wake a sleeper: so whatever
// comes, at most twice that is lost.
void ThreadPool::Await(const std::atomic<uint32_t>& word, uint32_t old) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kAwake{50};
  constexpr int kLooks = 16;  // between two at the clock
  if (waits_awake_) {
    const Clock::time_point end = Clock::now() + kAwake;
    while (Clock::now() < end) {
      for (int n = 0; n < kLooks; ++n) {
        if (word != old) return;
        hwy::Pause();
      }
    }
  }
  word.wait(old);
}

}  // namespace attest::tiled_fast
