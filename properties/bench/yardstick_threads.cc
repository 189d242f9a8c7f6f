#include "properties/bench/yardstick_threads.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace attest {
namespace {

// Awake, so that it returns as soon as it may.
void AwaitCount(const std::atomic<size_t>& count, size_t wanted) {
  while (count != wanted) std::this_thread::yield();
}

}  // namespace

YardstickThreads::YardstickThreads(int threads) : done_(static_cast<size_t>(std::max(threads, 1))) {
  for (int n = 1; n < threads; ++n) others_.emplace_back([this, n] { Serve(n); });
}

YardstickThreads::~YardstickThreads() {
  is_over_ = true;
  ++rounds_;
  rounds_.notify_all();
}

Measured YardstickThreads::Run(const std::function<double(int)>& body) {
  using Clock = std::chrono::steady_clock;
  body_ = &body;
  awake_ = 0;
  working_ = done_.size();
  ++rounds_;
  rounds_.notify_all();
  AwaitCount(awake_, others_.size());
  const Clock::time_point start = Clock::now();
  ++awake_;
  Work(0);
  AwaitCount(working_, 0);
  const std::chrono::duration<double> took = Clock::now() - start;
  return {std::accumulate(done_.begin(), done_.end(), 0.0), took.count()};
}

void YardstickThreads::Serve(int n) {
  for (uint32_t seen = 0;; ++seen) {
    rounds_.wait(seen);
    if (is_over_) return;
    ++awake_;
    AwaitCount(awake_, done_.size());
    Work(n);
  }
}

void YardstickThreads::Work(int n) {
  done_[static_cast<size_t>(n)] = (*body_)(n);
  --working_;
}

}  // namespace attest
