#include "impl/attention/visibility.h"

#include <algorithm>

namespace attest {
namespace {

bool InOneDocument(const Problem& p, const Row& row, int64_t key) {
  if (!p.documents) return true;
  return p.documents->query[static_cast<size_t>(row.batch * p.q_len + row.query)] ==
         p.documents->key[static_cast<size_t>(row.batch * p.kv_len + key)];
}

bool BlockAttends(const Problem& p, const Row& row, int64_t key) {
  if (!p.block_mask) return true;
  return p.block_mask->plane.At(row.batch, row.head, row.query / p.block_mask->block_q,
                                key / p.block_mask->block_k);
}

// Whether masks and documents let the row see the key; the rest is VisibleRange's.
bool MasksAttend(const Problem& p, const Row& row, int64_t key) {
  return (!p.mask || p.mask->At(row.batch, row.head, row.query, key)) &&
         (!p.bias || p.bias->At(row.batch, row.head, row.query, key)) &&
         InOneDocument(p, row, key) && BlockAttends(p, row, key);
}

// The first key that causality hides from the row.
int64_t CausalEnd(const Problem& p, const Row& row) {
  const int64_t end = row.query + p.DiagonalOffset(row.batch) + 1;
  if (!p.prefix_lengths) return end;
  return std::max(end, (*p.prefix_lengths)[static_cast<size_t>(row.batch)]);
}

}  // namespace

unsigned WhyHidden(const Problem& p, const Row& row, int64_t key) {
  const int64_t diagonal = row.query + p.DiagonalOffset(row.batch);
  unsigned why = kHiddenByNothing;
  if (p.key_lengths && key >= (*p.key_lengths)[static_cast<size_t>(row.batch)]) {
    why |= kHiddenByLength;
  }
  if (p.causal && key >= CausalEnd(p, row)) why |= kHiddenByCausal;
  if ((p.window.left && key < diagonal - *p.window.left) ||
      (p.window.right && key > diagonal + *p.window.right)) {
    why |= kHiddenByWindow;
  }
  if (p.mask && !p.mask->At(row.batch, row.head, row.query, key)) why |= kHiddenByMask;
  if (p.bias && !p.bias->At(row.batch, row.head, row.query, key)) why |= kHiddenByBias;
  if (!InOneDocument(p, row, key)) why |= kHiddenByDocument;
  if (!BlockAttends(p, row, key)) why |= kHiddenByBlock;
  return why;
}

bool Visible(const Problem& problem, const Row& row, int64_t key) {
  return WhyHidden(problem, row, key) == kHiddenByNothing;
}

KeyRange VisibleRange(const Problem& p, const Row& row) {
  const int64_t diagonal = row.query + p.DiagonalOffset(row.batch);
  KeyRange range{0, p.kv_len};
  if (p.key_lengths) {
    range.last = std::min(range.last, (*p.key_lengths)[static_cast<size_t>(row.batch)]);
  }
  if (p.causal) range.last = std::min(range.last, CausalEnd(p, row));
  if (p.window.right) range.last = std::min(range.last, diagonal + *p.window.right + 1);
  if (p.window.left) range.first = std::max(range.first, diagonal - *p.window.left);
  range.last = std::max(range.last, range.first);
  return range;
}

void ListVisibleKeys(const Problem& problem, const Row& row, std::vector<int64_t>& keys) {
  const KeyRange range = VisibleRange(problem, row);
  keys.clear();
  for (int64_t j = range.first; j < range.last; ++j) {
    if (MasksAttend(problem, row, j)) keys.push_back(j);
  }
}

std::vector<int64_t> VisibleKeys(const Problem& problem, const Row& row) {
  std::vector<int64_t> keys;
  ListVisibleKeys(problem, row, keys);
  return keys;
}

double CountVisibleKeys(const Problem& problem, const Row& row) {
  const KeyRange range = VisibleRange(problem, row);
  if (!problem.mask && !problem.bias && !problem.documents && !problem.block_mask)
    return static_cast<double>(range.last - range.first);
  double count = 0;
  for (int64_t j = range.first; j < range.last; ++j) count += MasksAttend(problem, row, j) ? 1 : 0;
  return count;
}

bool IsEmptyRow(const Problem& problem, const Row& row) {
  return !problem.sinks && SeesNoKey(problem, row);
}

bool IsPaddedQuery(const Problem& problem, const Row& row) {
  return problem.query_lengths &&
         row.query >= (*problem.query_lengths)[static_cast<size_t>(row.batch)];
}

bool SeesNoKey(const Problem& problem, const Row& row) {
  const KeyRange range = VisibleRange(problem, row);
  for (int64_t j = range.first; j < range.last; ++j) {
    if (MasksAttend(problem, row, j)) return false;
  }
  return true;
}

BitPlane VisiblePlane(const Problem& problem) {
  BitPlane plane;
  plane.shape = problem.WeightsShape();
  plane.bits.reserve(static_cast<size_t>(ElementCount(plane.shape)));
  ForEachRow(problem, [&](const Row& row) {
    for (int64_t j = 0; j < problem.kv_len; ++j) {
      plane.bits.push_back(Visible(problem, row, j) ? 1 : 0);
    }
  });
  return plane;
}

}  // namespace attest
