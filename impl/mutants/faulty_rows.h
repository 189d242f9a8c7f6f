// Rows of q, k and v as numbers, read with a mutation's mistakes: from the wrong head, batch item,
// page or slot, by the wrong strides. What goes wrong never reads outside the call's tensors, but for offsets cut to
// 32 bits in tensors that are larger. For the kernels of this folder.
#ifndef ATTEST_MUTANTS_FAULTY_ROWS_H_
#define ATTEST_MUTANTS_FAULTY_ROWS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "impl/abi/input_rows.h"
#include "impl/mutants/mutants.h"

namespace attest {

// A pointer into a tensor, of whose distance from the first element 32 bits were kept, counted in bytes.
template <typename T>
T* CutOffset(T* first, T* pointer) {
  const auto bytes = static_cast<int32_t>((pointer - first) * static_cast<ptrdiff_t>(sizeof(T)));
  return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(first) + bytes);
}

template <typename T>
class FaultyRows {
 public:
  using A = AccumulatorOf<T>;

  FaultyRows(const CallView& call, Mutation mutation)
      : call_(call), rows_(call), mutation_(mutation) {}

  void Query(int64_t b, int64_t h, int64_t i, A* target) const {
    rows_.Query(QueryItemOf(b), h, i, target);
  }
  void Key(int64_t b, int64_t h, int64_t j, A* target) const {
    const Place place = PlaceOf(b, j);
    const int64_t kv_head = KvHeadOf(h);
    if (Is(Mutation::kInnerStrideOne) && !call_.fp8) {
      return ReadRow(call_.KeyAt<T>(place.batch, kv_head, place.key).data, 1, call_.head_dim,
                     target);
    }
    if (Is(Mutation::kKeyOffsetIn32Bits) && !call_.fp8 && place.key >= call_.storage.past) {
      const T* row = call_.KeyAt<T>(place.batch, kv_head, place.key).data;
      const T* first = static_cast<const T*>(call_.k.data);
      return ReadRow(first + static_cast<int32_t>(row - first), call_.k.strides[3], call_.head_dim,
                     target);
    }
    rows_.Key(place.batch, kv_head, place.key, target);
  }
  void Value(int64_t b, int64_t h, int64_t j, A* target) const {
    const Place place = PlaceOf(b, j);
    const int64_t kv_head = KvHeadOf(h);
    if (Is(Mutation::kValuesReadAsDense) && DenseValue(place.batch, kv_head, place.key, target)) {
      return;
    }
    if (Is(Mutation::kPageOffsetIn32Bits) && !call_.fp8 && call_.is_paged()) {
      const T* row = call_.ValueAt<T>(place.batch, kv_head, place.key).data;
      const T* first = static_cast<const T*>(call_.v.data);
      return ReadRow(first + static_cast<uint32_t>(row - first), call_.v.strides[3],
                     call_.value_dim, target);
    }
    const bool is_first = Is(Mutation::kStridedValuesOfBatch0) && HasBatchGaps(call_.v);
    rows_.Value(is_first ? 0 : place.batch, kv_head, place.key, target);
  }

  // Whether the key's offset is taken for a negative one, and the key for none.
  bool IsLost(int64_t b, int64_t h, int64_t j) const {
    const int64_t row = (b * call_.kv_heads + KvHeadOf(h)) * call_.kv_len + j;
    return Is(Mutation::kOffsetIn16Bits) &&
           row * call_.head_dim > std::numeric_limits<int16_t>::max();
  }

 private:
  static void ReadRow(const T* row, int64_t stride, int64_t dim, A* target) {
    for (int64_t c = 0; c < dim; ++c) target[c] = static_cast<A>(row[c * stride]);
  }

  // Where key j is looked for: in its own place, but for faults of storage.
  struct Place {
    int64_t batch, key;
  };

  bool Is(Mutation mutation) const { return mutation_ == mutation; }

  int64_t KvHeadOf(int64_t h) const {
    const bool has_window = call_.window_left || call_.window_right;
    if (Is(Mutation::kKvHeadModulo) || (Is(Mutation::kKvHeadModuloInWindow) && has_window)) {
      return h % call_.kv_heads;
    }
    if (Is(Mutation::kGroupSizePowerOfTwo)) {
      const auto ratio = static_cast<uint64_t>(call_.q_heads / call_.kv_heads);
      return h / static_cast<int64_t>(std::bit_ceil(ratio));
    }
    return call_.KvHead(h);
  }

  Place PlaceOf(int64_t b, int64_t j) const {
    const StorageView& s = call_.storage;
    if (Is(Mutation::kPastAfterNew) && s.past > 0) return {b, (j + s.past) % call_.kv_len};
    if (Is(Mutation::kPagesOfBatch0) && s.page_size > 0) {
      return {j < call_.KeyLength(0) ? 0 : b, j};
    }
    if (Is(Mutation::kPageOfThePrevious) && s.page_size > 0 && j % s.page_size == 0) {
      return {b, std::max<int64_t>(j - s.page_size, 0)};
    }
    if (Is(Mutation::kRingFromSlot0) && !s.ring_start.empty()) {
      const int64_t start = s.ring_start[static_cast<size_t>(b)];
      return {b, (j + call_.kv_len - start) % call_.kv_len};
    }
    return {b, j};
  }

  // In a packed call whose items have a query at most, that of item b is looked for in row b.
  int64_t QueryItemOf(int64_t b) const {
    if (!Is(Mutation::kPackedSingleQuery) || !call_.is_packed() || call_.q_len != 1) return b;
    const auto& cu = call_.storage.cu_query;
    const int64_t row = std::min(b, cu.back() - 1);
    return std::upper_bound(cu.begin(), cu.end(), row) - cu.begin() - 1;
  }

  static bool HasBatchGaps(const TensorView& v) {
    return v.strides[0] != v.shape[1] * v.shape[2] * v.shape[3];
  }

  // Reads a row of plain values at the place that it has in a contiguous tensor; false where the
  // tensor is too small for that.
  bool DenseValue(int64_t b, int64_t kv_head, int64_t j, A* target) const {
    const TensorView& v = call_.v;
    const StorageView& s = call_.storage;
    const bool is_plain = !call_.fp8 && s.past == 0 && s.page_size == 0 && s.cu_key.empty();
    if (!is_plain || !s.ring_start.empty() || v.data == nullptr) return false;
    int64_t last = 0;  // the largest offset of the tensor
    for (size_t axis = 0; axis < 4; ++axis) last += (v.shape[axis] - 1) * v.strides[axis];
    const int64_t first = ((b * v.shape[1] + kv_head) * v.shape[2] + j) * v.shape[3];
    if (first + v.shape[3] - 1 > last) return false;
    const T* row = static_cast<const T*>(v.data) + first;
    for (int64_t c = 0; c < v.shape[3]; ++c) target[c] = static_cast<A>(row[c]);
    return true;
  }

  const CallView& call_;
  const InputRows<T> rows_;
  const Mutation mutation_;
};

}  // namespace attest

#endif  // ATTEST_MUTANTS_FAULTY_ROWS_H_
