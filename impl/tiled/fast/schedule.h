// Which thread computes what. Caller: fast.cc.
#ifndef ATTEST_TILED_FAST_SCHEDULE_H_
#define ATTEST_TILED_FAST_SCHEDULE_H_

#include "impl/tiled/fast/fast_call.h"
#include "impl/tiled/fast/thread_pool.h"

namespace attest::tiled_fast {

// Computes out and lse. Each thread has a share of the blocks of rows, and takes from those of others
// once it is done; where there are fewer blocks than threads they share the keys of each block instead, in
// chunks.
void RunCall(const FastCall& fast, ThreadPool& pool);

}  // namespace attest::tiled_fast

#endif  // ATTEST_TILED_FAST_SCHEDULE_H_
