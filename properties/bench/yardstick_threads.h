// Threads for yardsticks, which last for all of a table: neither their start nor their waking is part of what
// is measured, nor is what a yardstick sets up once a thread. Caller: kernels.cc.
#ifndef ATTEST_BENCH_YARDSTICK_THREADS_H_
#define ATTEST_BENCH_YARDSTICK_THREADS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace attest {

struct Measured {
  double work = 0;     // in whatever unit the body counts
  double seconds = 0;  // by the clock
};

class YardstickThreads {
 public:
  // The caller of Run is one of them; at least 1.
  explicit YardstickThreads(int threads);
  ~YardstickThreads();
  YardstickThreads(const YardstickThreads&) = delete;
  YardstickThreads& operator=(const YardstickThreads&) = delete;

  // Calls body(n) on thread n, on all at the same time: the seconds run from when all are awake until all are
  // done, and the work is the sum of what they return.
  Measured Run(const std::function<double(int)>& body);

 private:
  void Serve(int n);
  void Work(int n);

  std::vector<double> done_;  // by thread
  const std::function<double(int)>* body_ = nullptr;
  std::atomic<uint32_t> rounds_ = 0;  // Runs so far, which others sleep on
  std::atomic<size_t> awake_ = 0, working_ = 0;
  std::atomic<bool> is_over_ = false;
  std::vector<std::jthread> others_;
};

}  // namespace attest

#endif  // ATTEST_BENCH_YARDSTICK_THREADS_H_
