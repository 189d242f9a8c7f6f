// The optimised attention kernel, on Highway: one program for SSE4 to AVX-512 and NEON. Beside it
// stands tiled.h, the readable one; both keep the same promises (tiled_kernel.cc). f32 accumulates.
//
// How it goes: micro_kernel-inl.h has the one product that all is made of, and dots-inl.h its form for
// machines with dot products of bf16; panel-inl.h computes many rows with it, few_rows-inl.h few;
// schedule.cc shares blocks of rows out to threads. The rows of all query heads that share a kv head lie
// end to end in blocks, so that keys and values are fetched, and where need be converted or transposed,
// once for all of them. Work and memory beyond the inputs do not grow with q_len * kv_len: hidden tiles
// are skipped unread, and a thread needs some hundred KiB at any length.
//
// A row's bits depend on the row, its visible keys and their positions alone, as in tiled.h, and on
// the instructions of the machine: without a fused multiply-add, or with dot products, they are others.
//
// Calls of f64, with dropout, or with weights or scores as outputs go to the readable kernel.
#ifndef ATTEST_TILED_FAST_FAST_H_
#define ATTEST_TILED_FAST_FAST_H_

#include "impl/abi/call_view.h"
#include "impl/tiled/fast/thread_pool.h"

namespace attest {

// Computes every output of the call on the pool's threads, whose number has no effect on the result.
// Several calls may run at once, on one pool or on several. Throws as TiledAttention does.
void FastAttention(const CallView& call, tiled_fast::ThreadPool& pool);

}  // namespace attest

#endif  // ATTEST_TILED_FAST_FAST_H_
