// Which keys a row of a call sees, as both tiled kernels ask it: the range that length, causality and
// window leave, and whether masks and documents hide a key within it. Written from the ABI's prose; it
// shares no code with impl/attention/visibility.h, on which the oracle stands.
#ifndef ATTEST_TILED_VISIBLE_KEYS_H_
#define ATTEST_TILED_VISIBLE_KEYS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "impl/abi/call_view.h"
#include "impl/abi/input_rows.h"

namespace attest {

// Half-open range of key positions.
struct KeySpan {
  int64_t first = 0;
  int64_t last = 0;
  bool empty() const { return first >= last; }
};

// What length, causality with its prefix, and window leave to the rows of batch item b.
class RowRanges {
 public:
  RowRanges(const CallView& call, int64_t b)
      : call_(call),
        offset_(call.DiagonalOffset(b)),
        length_(call.KeyLength(b)),
        prefix_(call.PrefixLength(b)) {}

  KeySpan Of(int64_t i) const {
    const int64_t diagonal = i + offset_;
    KeySpan range{0, length_};
    if (call_.causal) range.last = std::min(range.last, std::max(diagonal + 1, prefix_));
    if (call_.window_right) range.last = std::min(range.last, diagonal + *call_.window_right + 1);
    if (call_.window_left) range.first = std::max(range.first, diagonal - *call_.window_left);
    return range;
  }

 private:
  const CallView& call_;
  const int64_t offset_, length_, prefix_;
};

inline KeySpan RangeOfRow(const CallView& call, int64_t b, int64_t i) {
  return RowRanges(call, b).Of(i);
}

// Whether anything beside length, causality and window hides keys.
inline bool HasMasks(const CallView& call) {
  return call.mask || call.bias || call.documents || call.block_mask;
}

// Whether masks and documents let row i see key j, which lies within the row's range. T stores the
// call's elements.
template <typename T>
bool MasksAttend(const CallView& call, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (call.block_mask && !call.block_mask->Attends(b, h, i, j)) return false;
  if (!call.InOneDocument(b, i, j)) return false;
  if (call.mask && call.mask->At<const uint8_t>(b, h, i, j) == 0) return false;
  return !call.bias ||
         BiasAt<T>(call, b, h, i, j) != -std::numeric_limits<AccumulatorOf<T>>::infinity();
}

}  // namespace attest

#endif  // ATTEST_TILED_VISIBLE_KEYS_H_
