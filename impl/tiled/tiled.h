// Online-softmax attention over tiles of keys, in the manner of FlashAttention, built from Eigen
// blocks. It reads the ABI call by itself, its rule of visibility included: it is one of the
// kernels on which the oracle's false alarms are counted, so it shares no code with the oracle.
//
// For each block of query rows the keys are walked in tiles that start at multiples of the tile
// size:
//  1. A tile that length, causality and window hide from every row of the block is skipped unread;
//     one that masks, documents and the block mask hide altogether is skipped too.
//  2. Its keys and values are packed, converted, into aligned buffers, wherever the storage has put
//     them: one column a component for keys, one column a position for values, padded to whole
//     vector registers.
//  3. Scores are sums of columns, so each score is summed over head_dim in the same order wherever
//     it stands; then come softcap, bias and ALiBi.
//  4. Each row takes the new maximum over its visible keys, scales what it has accumulated by
//     exp(old - new), and adds exp(score - new) * v, key by key in ascending order, times what
//     dropout leaves of it. A hidden key is never added, not even with weight 0, so NaN in it reaches
//     nothing. A sink is where a row starts: with the sink for its maximum and a sum of weights of 1.
// At the end rows are divided by their sums; rows that saw no key are 0, with lse -inf where there is
// no sink. Weights and scores, where wanted, come from a second walk, with the final maximum and sum.
//
// So a row's bits depend on the row, its visible keys and their positions alone: not on hidden
// data, layout, storage, mask form, batch, heads, q_len, threads or keys appended out of sight. They do
// depend on the tile size, and on where in a tile a key stands.
#ifndef ATTEST_TILED_TILED_H_
#define ATTEST_TILED_TILED_H_

#include <cstdint>

#include "impl/abi/attest/kernel.h"
#include "impl/abi/call_view.h"

namespace attest {

struct TiledOptions {
  int64_t tile = 64;   // keys a tile, at least 1
  int64_t qtile = 16;  // query rows a block, at least 1; no effect on the result
  int threads = 1;     // over which blocks are split; 0 = 1; no effect on the result
};

// Computes every output of the call; several calls may run at once. May throw std::bad_alloc, and
// std::system_error where a thread cannot be started, and nothing else.
void TiledAttention(const CallView& call, const TiledOptions& options);

// The plug-in's table; create options tile=N and qtile=N.
const attest_kernel_table* TiledKernelTable();

}  // namespace attest

#endif  // ATTEST_TILED_TILED_H_
