#include "impl/adapters/onnxruntime/session_cache.h"

namespace attest::ort {

tl::expected<std::shared_ptr<const Session>, Error> SessionCache::Get(const std::string& model) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_model_.find(model); found != by_model_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().second;
  }
  auto session = runtime_.CreateSession(model, threads_);
  if (!session) return tl::unexpected(std::move(session).error());
  if (entries_.size() == capacity_) {
    by_model_.erase(entries_.back().first);
    entries_.pop_back();
  }
  entries_.emplace_front(model, std::move(*session));
  by_model_.emplace(entries_.front().first, entries_.begin());
  return entries_.front().second;
}

}  // namespace attest::ort
