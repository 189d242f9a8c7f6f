// A digest of memory that worker and harness each take of an output: the one when the call has returned, the other
// when it copies the output. Where they differ, something has written there in between.
#ifndef ATTEST_HARNESS_SANDBOX_DIGEST_H_
#define ATTEST_HARNESS_SANDBOX_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace attest {

// 32 bits, and above them the same inverted: a digest that something has written over is hardly one any more.
// impl/abi/PROTOCOL.md ("Digests") says how it is computed, for workers in other languages.
inline uint64_t DigestOf(std::span<const std::byte> bytes) {
  uint64_t digest = 1;
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t size = bytes.size() < sizeof word ? bytes.size() : sizeof word;
    std::memcpy(&word, bytes.data(), size);
    digest = (digest ^ word) * 0x9E3779B97F4A7C15u;
    digest ^= digest >> 32;
    bytes = bytes.subspan(size);
  }
  const auto low = static_cast<uint32_t>(digest);  // into which the high half has gone
  return uint64_t{~low} << 32 | low;
}

inline bool IsDigest(uint64_t word) {
  return static_cast<uint32_t>(word >> 32) == ~static_cast<uint32_t>(word);
}

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_DIGEST_H_
