// Whether this build runs under AddressSanitizer, ThreadSanitizer or MemorySanitizer, which need
// terabytes of address space and make processes slow to start.
#ifndef ATTEST_HARNESS_SANDBOX_SANITIZED_H_
#define ATTEST_HARNESS_SANDBOX_SANITIZED_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // gcc
#define ATTEST_SANITIZED 1
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define ATTEST_SANITIZED 1
#endif
#endif
#ifndef ATTEST_SANITIZED
#define ATTEST_SANITIZED 0
#endif

namespace attest {

inline constexpr bool kSanitized = ATTEST_SANITIZED != 0;

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_SANITIZED_H_
