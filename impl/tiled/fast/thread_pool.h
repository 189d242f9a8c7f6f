// Threads that wait for work, so that a call need not start any: a thread costs as much to start as
// a small call to compute. For a moment they wait awake, since to be woken costs a good part of one, too.
#ifndef ATTEST_TILED_FAST_THREAD_POOL_H_
#define ATTEST_TILED_FAST_THREAD_POOL_H_

#include <atomic>
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
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(0) here, and meanwhile body(slot) for slots 1 .. min(threads, wanted) - 1 on the others, each
  // as soon as one of them is free; returns once all are done. One that would begin after body(0) is done
  // is left out, and while another call has the pool there is body(0) alone: the bodies have to share
  // their work out among as many as there are. An exception of a body comes out here.
  void Run(int wanted, const std::function<void(int)>& body);

 private:
  void Start(int count);
  void Serve();
  void Call(int slot);
  void Await(const std::atomic<uint32_t>& word, uint32_t old) const;

  const int threads_;
  const bool waits_awake_;  // for a moment; not where there are more threads than processors
  std::mutex busy_;         // held by the call that has the pool

  // Of the current Run. Whoever takes a place is waited for, so the first two stay.
  const std::function<void(int)>* body_ = nullptr;
  int slots_ = 0;
  std::atomic<int> places_ = 0;       // slots that no thread has taken; 0 between Runs
  std::atomic<uint32_t> left_ = 0;    // threads that have taken one and are done
  std::atomic<uint32_t> rounds_ = 0;  // Runs so far, which others wait on
  std::atomic<bool> is_over_ = false;

  std::mutex mutex_;  // of error_
  std::exception_ptr error_;
  std::vector<std::jthread> others_;
};

}  // namespace attest::tiled_fast

#endif  // ATTEST_TILED_FAST_THREAD_POOL_H_
