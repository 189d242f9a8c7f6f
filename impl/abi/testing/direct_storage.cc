#include "impl/abi/testing/direct_storage.h"

#include <algorithm>

namespace attest {
namespace {

constexpr int64_t kPageSize = 2;

int64_t PagesFor(int64_t keys) {
  return (keys + kPageSize - 1) / kPageSize;
}

}  // namespace

bool IsPackable(const Problem& p) {
  return !p.mask && !p.bias && !p.documents && !p.block_mask && !p.dropout && !p.want_weights &&
         !p.want_scores;
}

std::vector<int64_t> LengthsOf(const std::optional<std::vector<int64_t>>& lengths, int64_t batch,
                               int64_t len) {
  return lengths ? *lengths : std::vector<int64_t>(static_cast<size_t>(batch), len);
}

std::vector<int64_t> Cumulative(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> sums{0};
  for (const int64_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

KeyPlaces::KeyPlaces(const Problem& p, DirectStorage storage)
    : storage_(storage), batch_(p.batch), kv_len_(p.kv_len), outer_(p.batch), positions_(p.kv_len) {
  const std::vector<int64_t> key_lengths = LengthsOf(p.key_lengths, p.batch, p.kv_len);
  switch (storage) {
    case DirectStorage::kPlain:
      break;
    case DirectStorage::kPast:
      past_ = p.kv_len / 2;
      positions_ = p.kv_len - past_;
      break;
    case DirectStorage::kPages:
      Scatter(key_lengths);
      break;
    case DirectStorage::kRing:
      for (int64_t b = 0; b < p.batch; ++b) {
        ring_start_.push_back(p.kv_len == 0 ? 0 : (2 + 3 * b) % p.kv_len);
      }
      break;
    case DirectStorage::kPacked:
      cu_key_ = Cumulative(key_lengths);
      outer_ = 1;
      positions_ = cu_key_.back();
      break;
  }
}

// The items take turns, from the last page but one downwards; the last is never used.
void KeyPlaces::Scatter(const std::vector<int64_t>& key_lengths) {
  pages_per_item_ = PagesFor(kv_len_);
  positions_ = kPageSize;
  outer_ = 1;
  for (const int64_t length : key_lengths) outer_ += PagesFor(length);
  page_table_.assign(static_cast<size_t>(batch_ * pages_per_item_), -1);
  int64_t next = outer_ - 2;
  for (int64_t n = 0; n < pages_per_item_; ++n) {
    for (int64_t b = 0; b < batch_; ++b) {
      if (n >= PagesFor(key_lengths[static_cast<size_t>(b)])) continue;
      page_table_[static_cast<size_t>(b * pages_per_item_ + n)] = next--;
    }
  }
}

std::optional<KeyPlaces::Place> KeyPlaces::Find(int64_t b, int64_t j) const {
  const auto item = static_cast<size_t>(b);
  switch (storage_) {
    case DirectStorage::kPages: {
      const int64_t page = page_table_[static_cast<size_t>(b * pages_per_item_ + j / kPageSize)];
      if (page < 0) return std::nullopt;
      return Place{page, j % kPageSize};
    }
    case DirectStorage::kRing:
      return Place{b, (ring_start_[item] + j) % kv_len_};
    case DirectStorage::kPacked:
      if (cu_key_[item] + j >= cu_key_[item + 1]) return std::nullopt;
      return Place{0, cu_key_[item] + j};
    default:
      return Place{b, j - past_};
  }
}

}  // namespace attest
