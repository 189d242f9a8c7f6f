// What all files of the fast kernel share: its constants, and a call as it sees one. See fast.h.
#ifndef ATTEST_TILED_FAST_FAST_CALL_H_
#define ATTEST_TILED_FAST_FAST_CALL_H_

#include <cstddef>
#include <cstdint>

#include <Eigen/Core>

#include "impl/abi/call_view.h"

namespace attest::tiled_fast {

// Keys between two looks at the maximum. A multiple of the 16 lanes of the widest vectors; its scores for
// 48 rows and its values stay in the first two caches.
constexpr int64_t kTile = 128;
// Keys that are summed by themselves before they are merged, so that threads can share a row. Tiles
// and chunks start at multiples of their size: a row's bits depend on where its keys stand, and on
// no thread count.
constexpr int64_t kChunk = 4 * kTile;

constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;

// 2^f = 1 + f (c[0] + f (c[1] + ...)) for |f| <= 0.5, minimax in relative error: 9.2e-8.
constexpr float kExp2Coefficients[] = {0.693147004F, 0.240222424F, 0.0555073358F, 0.00967151299F,
                                       0.00132647273F};

// A call and what follows from it. Scores are kept times log2 e, so that weights are powers of two:
// a row of q is multiplied by `query_factor` when it is packed, which makes q.k the score, or with a
// softcap the argument of tanh, which is then multiplied by `cap`.
struct FastCall {
  explicit FastCall(const CallView& view);

  const CallView& call;
  float query_factor;
  float cap;       // 0: no softcap
  bool has_masks;  // something beside length, causality and window hides keys
  int64_t group;   // query heads a kv head
};

// Calls body(T{}) with the type that stores `dtype`: float, or one of 16 bits. Calls of others never come
// here.
template <typename Body>
void WithStorage(DType dtype, Body&& body) {
  if (dtype == DType::kF16) return body(Eigen::half{});
  if (dtype == DType::kBF16) return body(Eigen::bfloat16{});
  return body(float{});
}

// Query rows first .. first + rows of one kv head, batch item `batch`: those of its query heads lie
// end to end, StoredRows(batch) each.
struct Block {
  int64_t batch = 0, kv_head = 0;
  int64_t first = 0, rows = 0;
};

}  // namespace attest::tiled_fast

#endif  // ATTEST_TILED_FAST_FAST_CALL_H_
