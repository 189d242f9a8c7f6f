// What the fast kernel allocates, counted: a program of its own, for it replaces operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "impl/tiled/fast/fast.h"

namespace {

std::atomic<int64_t> held = 0, most = 0;  // bytes that are allocated now, and at most so far

// The size stands in front of what is handed out, so that delete knows it.
constexpr size_t kHeader = 64;

void* Allocate(size_t size) {
  auto* block =
      static_cast<char*>(std::aligned_alloc(kHeader, (size + 2 * kHeader - 1) / kHeader * kHeader));
  if (block == nullptr) throw std::bad_alloc();
  *reinterpret_cast<size_t*>(block) = size;
  held += static_cast<int64_t>(size);
  most = std::max(most.load(), held.load());
  return block + kHeader;
}

void Release(void* data) {
  if (data == nullptr) return;
  char* const block = static_cast<char*>(data) - kHeader;
  held -= static_cast<int64_t>(*reinterpret_cast<size_t*>(block));
  std::free(block);
}

}  // namespace

void* operator new(size_t size) {
  return Allocate(size);
}
void* operator new[](size_t size) {
  return Allocate(size);
}
void* operator new(size_t size, std::align_val_t) {
  return Allocate(size);
}
void* operator new[](size_t size, std::align_val_t) {
  return Allocate(size);
}
void operator delete(void* data) noexcept {
  Release(data);
}
void operator delete[](void* data) noexcept {
  Release(data);
}
void operator delete(void* data, size_t) noexcept {
  Release(data);
}
void operator delete[](void* data, size_t) noexcept {
  Release(data);
}
void operator delete(void* data, std::align_val_t) noexcept {
  Release(data);
}
void operator delete[](void* data, std::align_val_t) noexcept {
  Release(data);
}
void operator delete(void* data, size_t, std::align_val_t) noexcept {
  Release(data);
}
void operator delete[](void* data, size_t, std::align_val_t) noexcept {
  Release(data);
}

namespace attest {
namespace {

constexpr int64_t kDim = 128;

// bf16 at `data`, so that the scratch for converted keys is counted, too.
TensorView View(std::vector<uint16_t>& data, int64_t len) {
  data.assign(static_cast<size_t>(len * kDim), 0x3C00);
  return {data.data(), {1, 1, len, kDim}, {0, 0, kDim, 1}};
}

// The most bytes that a call holds beside its tensors.
int64_t BytesOf(int64_t q_len, int64_t kv_len, bool causal, int threads) {
  std::vector<uint16_t> q, k, v, out;
  CallView call;
  call.dtype = DType::kBF16;
  call.batch = call.q_heads = call.kv_heads = 1;
  call.q_len = q_len;
  call.kv_len = kv_len;
  call.head_dim = call.value_dim = kDim;
  call.causal = causal;
  call.q = View(q, q_len);
  call.k = View(k, kv_len);
  call.v = View(v, kv_len);
  call.out = View(out, q_len);
  tiled_fast::ThreadPool pool(threads);
  const int64_t before = held;
  most = before;
  FastAttention(call, pool);
  return most - before;
}

TEST(FastMemoryTest, ScratchDoesNotGrowWithKeysAndLittleWithRows) {
  constexpr int64_t kLimit = 4 << 20;  // bytes a thread
  for (const int64_t q_len : {1, 64}) {
    const int64_t few = BytesOf(q_len, 2048, /*causal=*/false, 1);
    EXPECT_EQ(BytesOf(q_len, 16384, /*causal=*/false, 1), few);
    EXPECT_LT(few, kLimit);
    EXPECT_LT(BytesOf(q_len, 16384, /*causal=*/false, 2), 2 * kLimit);
  }
  const int64_t rows = BytesOf(16384, 16, /*causal=*/true, 1);
  EXPECT_LT(rows, kLimit);
  EXPECT_LT(rows, BytesOf(1024, 16, /*causal=*/true, 1) + 16384);  // the list of blocks
}

}  // namespace
}  // namespace attest
