// Keeps the sessions of recent models: making one costs ten times a small run, and a kernel under
// test meets the same few models again and again.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_SESSION_CACHE_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_SESSION_CACHE_H_

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <tl/expected.hpp>

#include "impl/adapters/onnxruntime/runtime.h"

namespace attest::ort {

// For any number of threads at once.
class SessionCache {
 public:
  // `runtime` must outlive the cache and what it gave. `threads` as in Runtime::CreateSession.
  // `capacity` >= 1.
  SessionCache(const Runtime& runtime, int threads, size_t capacity)
      : runtime_(runtime), threads_(threads), capacity_(capacity) {}

  // The session of a serialised model, made when it is not there; the one used longest ago makes
  // room.
  tl::expected<std::shared_ptr<const Session>, Error> Get(const std::string& model);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Session>>;

  const Runtime& runtime_;
  const int threads_;
  const size_t capacity_;
  std::mutex mutex_;          // of the two below
  std::list<Entry> entries_;  // last used first
  // Keys view the strings in entries_, which never move.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_model_;
};

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_SESSION_CACHE_H_
