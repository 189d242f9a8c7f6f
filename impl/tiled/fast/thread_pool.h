// Threads that wait for work, so that a call need not start any: a thread costs as much to start as
// a small call to compute.
#ifndef ATTEST_TILED_FAST_THREAD_POOL_H_
#define ATTEST_TILED_FAST_THREAD_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace attest::tiled_fast {

class ThreadPool {
 public:
  // `threads` counts the caller of Run in; at least 1. The others start with the first Run that needs
  // them, and end with the pool.
  explicit ThreadPool(int threads) : threads_(threads < 1 ? 1 : threads) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(slot) for slots 0 .. min(threads, wanted) - 1 at the same time, each on a thread of its
  // own, and returns once all are done. While another call has the pool, only body(0) is called: the
  // bodies have to share their work out among as many as there are. An exception of a body comes out
  // here.
  void Run(int wanted, const std::function<void(int)>& body);

 private:
  void Start(int count);
  void Call(int slot);

  const int threads_;
  std::mutex busy_;  // held by the call that has the pool

  std::mutex mutex_;  // of all below
  std::condition_variable work_, done_;
  const std::function<void(int)>* body_ = nullptr;
  int slots_ = 0;       // of the current Run
  int running_ = 0;     // other threads that have not finished it
  uint64_t round_ = 0;  // Runs so far
  bool is_over_ = false;
  std::exception_ptr error_;
  std::vector<std::jthread> others_;
};

}  // namespace attest::tiled_fast

#endif  // ATTEST_TILED_FAST_THREAD_POOL_H_
