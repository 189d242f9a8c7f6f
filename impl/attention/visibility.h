// Which keys a row sees: the one place where causality and prefix, window, key lengths, documents, the
// boolean mask, the block mask and additive -inf come together. The reference, the generators, the properties and the pictures ask
// here. (The second reference, impl/reference/scalar_reference.h, has its own on purpose.)
#ifndef ATTEST_ATTENTION_VISIBILITY_H_
#define ATTEST_ATTENTION_VISIBILITY_H_

#include <cstdint>
#include <vector>

#include "impl/attention/problem.h"

namespace attest {

// One query position: (batch item, query head, query index).
struct Row {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t query = 0;

  friend bool operator==(const Row&, const Row&) = default;
};

// The mechanisms that can hide a key, as bits: why a key is hidden.
enum HiddenBy : unsigned {
  kHiddenByNothing = 0,
  kHiddenByLength = 1u << 0,    // at or beyond the batch item's key length
  kHiddenByCausal = 1u << 1,    // after the diagonal
  kHiddenByWindow = 1u << 2,    // outside the sliding window
  kHiddenByMask = 1u << 3,      // the boolean mask says 0
  kHiddenByBias = 1u << 4,      // the additive mask says -inf
  kHiddenByDocument = 1u << 5,  // of another document
  kHiddenByBlock = 1u << 6,     // the block mask says 0
};

// Every mechanism that hides `key` (0 <= key < kv_len) from `row`; 0 when it is visible.
unsigned WhyHidden(const Problem& problem, const Row& row, int64_t key);

bool Visible(const Problem& problem, const Row& row, int64_t key);

// The half-open range of keys that length, causality with its prefix, and window leave to the row,
// before masks and documents: empty ranges have first == last. A key outside it is hidden whatever the masks say.
struct KeyRange {
  int64_t first = 0;
  int64_t last = 0;
};
KeyRange VisibleRange(const Problem& problem, const Row& row);

// The visible keys of a row in ascending order; the second form reuses the storage of `keys`.
std::vector<int64_t> VisibleKeys(const Problem& problem, const Row& row);
void ListVisibleKeys(const Problem& problem, const Row& row, std::vector<int64_t>& keys);

// How many keys the row sees, as a real number for formulas.
double CountVisibleKeys(const Problem& problem, const Row& row);

// True when the row's softmax has no term at all: no visible key, and no sink.
bool IsEmptyRow(const Problem& problem, const Row& row);

// True when the row sees no key; with a sink it is not empty.
bool SeesNoKey(const Problem& problem, const Row& row);

// True when the row lies at or beyond its batch item's query length.
bool IsPaddedQuery(const Problem& problem, const Row& row);

// Calls visit(Row) for every row, batch-major. `visit` may not change the problem.
template <typename Visitor>
void ForEachRow(const Problem& problem, Visitor&& visit) {
  for (int64_t b = 0; b < problem.batch; ++b)
    for (int64_t h = 0; h < problem.q_heads; ++h)
      for (int64_t i = 0; i < problem.q_len; ++i) visit(Row{b, h, i});
}

// The whole visible relation as a boolean mask of full shape: what an explicit mask would say.
BitPlane VisiblePlane(const Problem& problem);

}  // namespace attest

#endif  // ATTEST_ATTENTION_VISIBILITY_H_
