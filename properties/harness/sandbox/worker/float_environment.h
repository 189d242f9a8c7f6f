// The floating-point control state of the calling thread: rounding, flush-to-zero, exception masks,
// without the sticky exception flags, which any arithmetic may set. The worker compares it before
// and after each call.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_FLOAT_ENVIRONMENT_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_FLOAT_ENVIRONMENT_H_

#include <cstdint>
#include <string>

namespace attest {

struct FloatEnvironment {
  uint64_t vector = 0;  // MXCSR on x86-64, FPCR on arm64
  uint32_t x87 = 0;     // the x87 control word; 0 on arm64

  friend bool operator==(const FloatEnvironment&, const FloatEnvironment&) = default;
};

FloatEnvironment ReadFloatEnvironment();
void RestoreFloatEnvironment(const FloatEnvironment& environment);

// What differs, in words: "rounding mode, flush-to-zero". Empty when nothing does.
std::string DescribeChange(const FloatEnvironment& before, const FloatEnvironment& after);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_FLOAT_ENVIRONMENT_H_
