// Where each key of a problem lies in the tensors of a direct call, for every DirectStorage. For
// this folder only.
#ifndef ATTEST_ABI_TESTING_DIRECT_STORAGE_H_
#define ATTEST_ABI_TESTING_DIRECT_STORAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "impl/abi/testing/direct_call.h"

namespace attest {

// Lengths of batch items: those given, or the whole of `len`.
std::vector<int64_t> LengthsOf(const std::optional<std::vector<int64_t>>& lengths, int64_t batch,
                               int64_t len);
// [batch + 1] sums of lengths, from 0.
std::vector<int64_t> Cumulative(const std::vector<int64_t>& lengths);

// K as it is shown to the kernel; V lies likewise.
class KeyPlaces {
 public:
  KeyPlaces(const Problem& problem, DirectStorage storage);

  // Keys below it lie in the past tensors, at their own position.
  int64_t past() const { return past_; }
  // The first and third extent of K: batch items or pages, and positions.
  int64_t outer() const { return outer_; }
  int64_t positions() const { return positions_; }
  // Key j of batch item b, not in the past: its index along both. nullopt where it is not shown.
  struct Place {
    int64_t outer, position;
  };
  std::optional<Place> Find(int64_t b, int64_t j) const;

  const std::vector<int64_t>& page_table() const { return page_table_; }  // [batch, pages_per_item]
  int64_t pages_per_item() const { return pages_per_item_; }
  const std::vector<int64_t>& ring_start() const { return ring_start_; }

 private:
  void Scatter(const std::vector<int64_t>& key_lengths);

  DirectStorage storage_;
  int64_t batch_, kv_len_;
  int64_t past_ = 0, outer_, positions_;
  int64_t pages_per_item_ = 0;
  std::vector<int64_t> page_table_, ring_start_, cu_key_;
};

}  // namespace attest

#endif  // ATTEST_ABI_TESTING_DIRECT_STORAGE_H_
