// Splits the rows of a call over threads: what our own kernels do with the thread count that create
// was given. Header only, for plug-ins; whoever uses it links Threads::Threads.
#ifndef ATTEST_ABI_ROW_THREADS_H_
#define ATTEST_ABI_ROW_THREADS_H_

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace attest {

// Calls body(first, last) on consecutive parts of [0, count), all at the same time: on `threads`
// threads, the calling one among them, but never on more than there are items. 0 threads count as 1.
// The parts must not write to the same place. An exception of a part comes out once all are done.
template <typename Body>
void ForEachPart(int64_t count, int threads, Body&& body) {
  const int64_t parts = std::clamp<int64_t>(threads, 1, std::max<int64_t>(count, 1));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(parts));
  const auto run = [&](int64_t part) {
    try {
      body(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      errors[static_cast<size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;  // joined at the end of the block
    for (int64_t part = 1; part < parts; ++part) others.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace attest

#endif  // ATTEST_ABI_ROW_THREADS_H_
