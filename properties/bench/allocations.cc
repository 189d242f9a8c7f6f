#include "properties/bench/allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "properties/harness/sandbox/sanitized.h"

namespace attest {
namespace {

std::atomic<bool> is_counting = false;
std::atomic<int64_t> count = 0, bytes = 0;

[[maybe_unused]] void Count(size_t size) {
  if (!is_counting.load(std::memory_order_relaxed)) return;
  ++count;
  bytes += static_cast<int64_t>(size);
}

}  // namespace

void StartCountingAllocations() {
  count = bytes = 0;
  is_counting = true;
}

Allocations StopCountingAllocations() {
  is_counting = false;
  if (kSanitized) return {-1, -1};
  return {count, bytes};
}

}  // namespace attest

#if !ATTEST_SANITIZED
// The C library's own, by names that it keeps for this purpose. free stays its own.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* data, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

#define ATTEST_EXPORTED __attribute__((visibility("default")))

ATTEST_EXPORTED void* malloc(size_t size) {
  attest::Count(size);
  return __libc_malloc(size);
}
ATTEST_EXPORTED void* calloc(size_t number, size_t size) {
  attest::Count(number * size);
  return __libc_calloc(number, size);
}
ATTEST_EXPORTED void* realloc(void* data, size_t size) {
  attest::Count(size);
  return __libc_realloc(data, size);
}
ATTEST_EXPORTED void* memalign(size_t alignment, size_t size) {
  attest::Count(size);
  return __libc_memalign(alignment, size);
}
ATTEST_EXPORTED void* aligned_alloc(size_t alignment, size_t size) {
  attest::Count(size);
  return __libc_memalign(alignment, size);
}
ATTEST_EXPORTED int posix_memalign(void** data, size_t alignment, size_t size) {
  attest::Count(size);
  *data = __libc_memalign(alignment, size);
  return *data == nullptr ? ENOMEM : 0;
}
}
#endif
