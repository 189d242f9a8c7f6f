// Cuts a case down along one axis, taking everything that hangs on the axis with it: masks,
// lengths, documents, diagonal offsets, numbers of heads, literals and overrides. The shrinker's
// one way to make a problem smaller.
#ifndef ATTEST_HARNESS_CASE_SLICE_H_
#define ATTEST_HARNESS_CASE_SLICE_H_

#include <cstdint>
#include <vector>

#include "properties/harness/case/case.h"

namespace attest {

enum class Axis { kBatch, kQHeads, kKvHeads, kQLen, kKvLen, kHeadDim, kValueDim };

int64_t& SizeOf(Problem& problem, Axis axis);
int64_t SizeOf(const Problem& problem, Axis axis);

// first, first + 1, ..., first + count - 1.
std::vector<int64_t> IndexRange(int64_t first, int64_t count);

// The case with only the indices `keep` (ascending, in range) of `axis`, renumbered from 0. Each
// remaining row keeps its diagonal key and its lengths count the keys that remain; overrides of
// what is gone are dropped. A block mask whose tiles the cut goes through becomes a part of the
// boolean mask. Cutting query heads alone or kv heads alone may leave an invalid case: the caller
// cuts the other too.
Case Select(const Case& c, Axis axis, const std::vector<int64_t>& keep);

// Keeps kv heads `keep` and, of each one's query heads, the first `ratio`.
Case SelectHeads(const Case& c, const std::vector<int64_t>& keep, int64_t ratio);

// The array with only the indices `keep` along dimension `dimension`.
Array SelectArray(const Array& array, size_t dimension, const std::vector<int64_t>& keep);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_SLICE_H_
