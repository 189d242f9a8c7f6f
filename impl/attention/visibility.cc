#include "impl/attention/visibility.h"

#include <algorithm>
#include <numeric>
#include <optional>

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

// One row's line of a plane, as BitPlane::At reads it; without a plane it says 1 to every key.
class PlaneLine {
 public:
  PlaneLine(const std::optional<BitPlane>& plane, const Row& row) {
    if (!plane || plane->bits.empty()) return;
    const Shape4& s = plane->shape;
    const int64_t b = s[0] == 1 ? 0 : row.batch, h = s[1] == 1 ? 0 : row.head,
                  i = s[2] == 1 ? 0 : row.query;
    first_ = &plane->bits[static_cast<size_t>(((b * s[1] + h) * s[2] + i) * s[3])];
    step_ = s[3] == 1 ? 0 : 1;
  }
  bool At(int64_t key) const { return first_ == nullptr || first_[key * step_] != 0; }

 private:
  const uint8_t* first_ = nullptr;
  int64_t step_ = 0;
};

// Whether there is anything beside what VisibleRange looks at.
bool MasksMayHide(const Problem& p) {
  return p.mask || p.bias || p.documents || p.block_mask;
}

// Whether masks and documents let one row see keys; the rest is VisibleRange's.
class RowMasks {
 public:
  RowMasks(const Problem& p, const Row& row)
      : p_(p), row_(row), mask_(p.mask, row), bias_(p.bias, row) {}

  bool Attend(int64_t key) const {
    return mask_.At(key) && bias_.At(key) && InOneDocument(p_, row_, key) &&
           BlockAttends(p_, row_, key);
  }

 private:
  const Problem& p_;
  const Row& row_;
  const PlaneLine mask_, bias_;
};

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
  const auto most = static_cast<size_t>(range.last - range.first);
  if (!MasksMayHide(problem)) {
    keys.resize(most);
    std::iota(keys.begin(), keys.end(), range.first);
    return;
  }
  keys.clear();
  keys.reserve(most);
  const RowMasks masks(problem, row);
  for (int64_t j = range.first; j < range.last; ++j) {
    if (masks.Attend(j)) keys.push_back(j);
  }
}

std::vector<int64_t> VisibleKeys(const Problem& problem, const Row& row) {
  std::vector<int64_t> keys;
  ListVisibleKeys(problem, row, keys);
  return keys;
}

double CountVisibleKeys(const Problem& problem, const Row& row) {
  const KeyRange range = VisibleRange(problem, row);
  if (!MasksMayHide(problem)) return static_cast<double>(range.last - range.first);
  const RowMasks masks(problem, row);
  int64_t count = 0;
  for (int64_t j = range.first; j < range.last; ++j) count += masks.Attend(j) ? 1 : 0;
  return static_cast<double>(count);
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
  if (range.first == range.last || !MasksMayHide(problem)) return range.first == range.last;
  const RowMasks masks(problem, row);
  for (int64_t j = range.first; j < range.last; ++j) {
    if (masks.Attend(j)) return false;
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
