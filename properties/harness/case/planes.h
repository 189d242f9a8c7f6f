// Broadcasting spelled out: planes and arrays whose extents of 1 stand for every index, copied out
// to larger extents.
#ifndef ATTEST_HARNESS_CASE_PLANES_H_
#define ATTEST_HARNESS_CASE_PLANES_H_

#include <cstddef>

#include "impl/attention/problem.h"

namespace attest {

// Calls visit(flat index in `to`, flat index in `from`) for every element of `to`, in row-major
// order. Each extent of `from` equals that of `to` or is 1.
template <typename Visitor>
void ForEachBroadcast(const Shape4& from, const Shape4& to, Visitor&& visit) {
  size_t flat = 0;
  const auto pick = [&](size_t axis, int64_t index) { return from[axis] == 1 ? 0 : index; };
  for (int64_t a = 0; a < to[0]; ++a)
    for (int64_t b = 0; b < to[1]; ++b)
      for (int64_t c = 0; c < to[2]; ++c)
        for (int64_t d = 0; d < to[3]; ++d) {
          const int64_t source =
              ((pick(0, a) * from[1] + pick(1, b)) * from[2] + pick(2, c)) * from[3] + pick(3, d);
          visit(flat++, static_cast<size_t>(source));
        }
}

// The same plane with the extents of `shape`; its rank becomes 4 where it grows at the front.
inline BitPlane ExpandTo(const BitPlane& plane, const Shape4& shape) {
  BitPlane full;
  full.shape = shape;
  full.rank = plane.rank;
  if (shape[1] != 1 && full.rank < 3) full.rank = 3;
  if (shape[0] != 1) full.rank = 4;
  full.bits.resize(static_cast<size_t>(ElementCount(shape)));
  ForEachBroadcast(plane.shape, shape,
                   [&](size_t to, size_t from) { full.bits[to] = plane.bits[from]; });
  return full;
}

inline Array ExpandTo(const Array& array, const Shape4& shape) {
  Array full(shape);
  ForEachBroadcast(array.shape, shape,
                   [&](size_t to, size_t from) { full.values[to] = array.values[from]; });
  return full;
}

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_PLANES_H_
