#include "impl/tiled/fast/schedule.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "impl/tiled/fast/aligned_floats.h"
#include "impl/tiled/fast/block_kernel.h"

namespace attest::tiled_fast {
namespace {

using Kernels = std::vector<std::unique_ptr<BlockKernel>>;

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Of the largest batch item: query rows of a kv head, end to end.
int64_t MostRows(const FastCall& fast) {
  int64_t rows = 0;
  for (int64_t b = 0; b < fast.call.batch; ++b) rows = std::max(rows, fast.call.StoredRows(b));
  return rows * fast.group;
}

// As many panels as leave several blocks to each thread.
int64_t RowsOfBlock(const FastCall& fast, int64_t rows, int threads) {
  if (rows <= kFewRows) return kFewRows;
  const int64_t heads = fast.call.batch * fast.call.kv_heads;
  int64_t size = PanelRows() * kMaxPanels;
  while (size > PanelRows() && heads * CeilDiv(rows, size) < int64_t{4} * threads) {
    size -= PanelRows();
  }
  return std::min(rows, size);
}

// The last rows of a head first: under causality they are the dearest.
std::vector<Block> BlocksOf(const FastCall& fast, int64_t size) {
  std::vector<Block> blocks;
  for (int64_t b = 0; b < fast.call.batch; ++b) {
    const int64_t rows = fast.call.StoredRows(b) * fast.group;
    for (int64_t h = 0; h < fast.call.kv_heads; ++h) {
      for (int64_t n = CeilDiv(rows, size) - 1; n >= 0; --n) {
        blocks.push_back({b, h, n * size, std::min(size, rows - n * size)});
      }
    }
  }
  return blocks;
}

// Half-open range of chunks that a block's rows may see.
KeySpan ChunksOf(const BlockKernel& kernel) {
  if (kernel.keys().empty()) return {};
  return {kernel.keys().first / kChunk, CeilDiv(kernel.keys().last, kChunk)};
}

// Without sinks the first chunk's sums are the total so far.
void RunBlock(const FastCall& fast, const Block& block, BlockKernel& kernel, float* part) {
  kernel.Start(block);
  const KeySpan chunks = ChunksOf(kernel);
  int64_t c = chunks.first;
  if (chunks.last - c == 1 && !fast.call.sinks) return kernel.RunOnly(c);
  if (c < chunks.last && !fast.call.sinks) {
    kernel.RunChunk(c++, kernel.Total());
  } else {
    kernel.Clear();
  }
  for (; c < chunks.last; ++c) {
    kernel.RunChunk(c, part);
    kernel.Merge(part);
  }
  kernel.Finish();
}

// The blocks of one thread, which others take from once they have done their own.
struct alignas(64) Share {
  std::atomic<size_t> next;
  size_t last;
};

// Shares lie side by side in the order of blocks: so each head's keys are read, and its outs written, by one
// thread, call after call, as far as work is even. Threads need not have a cache in common.
std::vector<Share> SharesOf(size_t blocks, size_t threads) {
  std::vector<Share> shares(threads);
  for (size_t n = 0; n < threads; ++n) {
    shares[n].next = blocks * n / threads;
    shares[n].last = blocks * (n + 1) / threads;
  }
  return shares;
}

void ShareBlocks(const FastCall& fast, const std::vector<Block>& blocks, const Kernels& kernels,
                 ThreadPool& pool) {
  const size_t threads = kernels.size();
  std::vector<Share> shares = SharesOf(blocks.size(), threads);
  pool.Run(static_cast<int>(threads), [&](int slot) {
    const auto own = static_cast<size_t>(slot);
    BlockKernel& kernel = *kernels[own];
    const AlignedFloats part(kernel.PartSize());
    for (size_t k = 0; k < threads; ++k) {
      Share& share = shares[(own + k) % threads];
      for (size_t n = share.next++; n < share.last; n = share.next++) {
        RunBlock(fast, blocks[n], kernel, part.get());
      }
    }
  });
}

// So many chunks a thread, at most, between two merges: what bounds the memory for parts.
constexpr int64_t kChunksAtOnce = 8;

// Each kernel knows the block; parts are merged by the first, in ascending order.
void ShareKeys(const Block& block, const Kernels& kernels, ThreadPool& pool) {
  for (const auto& kernel : kernels) kernel->Start(block);
  BlockKernel& first = *kernels.front();
  first.Clear();
  const KeySpan chunks = ChunksOf(first);
  const int64_t size = PaddedToVectors(first.PartSize());
  const auto threads = static_cast<int64_t>(kernels.size());
  const int64_t wave = std::min(chunks.last - chunks.first, threads * kChunksAtOnce);
  const AlignedFloats parts(wave * size);
  for (int64_t begin = chunks.first; begin < chunks.last; begin += wave) {
    const int64_t end = std::min(begin + wave, chunks.last);
    std::atomic<int64_t> next = begin;
    pool.Run(static_cast<int>(threads), [&](int slot) {
      BlockKernel& kernel = *kernels[static_cast<size_t>(slot)];
      for (int64_t c = next++; c < end; c = next++) {
        kernel.RunChunk(c, parts.get() + (c - begin) * size);
      }
    });
    for (int64_t c = begin; c < end; ++c) first.Merge(parts.get() + (c - begin) * size);
  }
  first.Finish();
}

}  // namespace

void RunCall(const FastCall& fast, ThreadPool& pool) {
  const int64_t most = MostRows(fast);
  if (most == 0 || fast.call.batch * fast.call.kv_heads == 0) return;
  const int64_t rows = RowsOfBlock(fast, most, pool.threads());
  const std::vector<Block> blocks = BlocksOf(fast, rows);
  const bool by_keys =
      static_cast<int64_t>(blocks.size()) < pool.threads() && fast.call.kv_len > kChunk;
  const size_t threads = static_cast<size_t>(pool.threads());
  Kernels kernels(by_keys ? threads : std::min(threads, blocks.size()));
  for (auto& kernel : kernels) {
    kernel = most <= kFewRows ? NewFewRowsKernel(fast) : NewPanelKernel(fast, rows);
  }
  if (!by_keys) return ShareBlocks(fast, blocks, kernels, pool);
  for (const Block& block : blocks) ShareKeys(block, kernels, pool);
}

}  // namespace attest::tiled_fast
