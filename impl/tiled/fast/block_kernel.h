// The two ways in which blocks of rows are computed, with the instructions of the machine at hand. A
// thread makes a kernel for a call and gives it one block after the other; schedule.cc decides which.
//
// Sums over a chunk of keys are a `part`, PartSize() floats that belong to the caller: for each row
// the maximum, the sum of the weights and the sum of weight * v. Parts are merged in ascending order
// of chunks, whoever computed them.
#ifndef ATTEST_TILED_FAST_BLOCK_KERNEL_H_
#define ATTEST_TILED_FAST_BLOCK_KERNEL_H_

#include <cstdint>
#include <memory>

#include "impl/tiled/fast/block_rows.h"
#include "impl/tiled/fast/fast_call.h"

namespace attest::tiled_fast {

class BlockKernel {
 public:
  virtual ~BlockKernel() = default;

  virtual int64_t PartSize() const = 0;
  // Turns to another block, of at most as many rows as the kernel was made for.
  virtual void Start(const Block& block) = 0;
  // The keys that the block's rows may see.
  virtual KeySpan keys() const = 0;
  // Computes a part from scratch. `chunk` counts in kChunk keys.
  virtual void RunChunk(int64_t chunk, float* part) = 0;
  // For a block without sinks whose keys are all in one chunk: computes its out and lse.
  virtual void RunOnly(int64_t chunk) {
    RunChunk(chunk, Total());
    Finish();
  }
  // What Finish writes as out and lse of the block's rows: a part, made by Clear and Merge. Where
  // there are no sinks, the first chunk's part may be written here instead.
  virtual float* Total() = 0;
  virtual void Clear() = 0;
  virtual void Merge(const float* part) = 0;
  virtual void Finish() = 0;
};

// For many rows: vectors hold the same component, or the same key's scores, of consecutive rows.
// PanelRows is the width of the widest panel; the panels of a block, at most kMaxPanels, share converted
// keys and values.
int64_t PanelRows();
constexpr int64_t kMaxPanels = 4;
std::unique_ptr<BlockKernel> NewPanelKernel(const FastCall& fast, int64_t rows);

// For at most kFewRows rows, as in decoding: vectors hold the scores of consecutive keys, or
// consecutive components of values. The results have the same bits.
constexpr int64_t kFewRows = 8;
std::unique_ptr<BlockKernel> NewFewRowsKernel(const FastCall& fast);

}  // namespace attest::tiled_fast

#endif  // ATTEST_TILED_FAST_BLOCK_KERNEL_H_
