#include "properties/harness/sandbox/worker/float_environment.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace attest {
namespace {

struct ControlBits {
  uint64_t vector;
  uint32_t x87;
  const char* name;
};

#if defined(__x86_64__)
constexpr uint64_t kControlOnly = 0xFFC0;  // MXCSR without its six exception flags
constexpr ControlBits kControls[] = {{0x6000, 0x0C00, "rounding mode"},
                                     {0x8000, 0, "flush-to-zero"},
                                     {0x0040, 0, "denormals-are-zero"},
                                     {0, 0x0300, "x87 precision"},
                                     {0x1F80, 0x003F, "exception masks"}};
#else
constexpr ControlBits kControls[] = {
    {uint64_t{3} << 22, 0, "rounding mode"},
    {(uint64_t{1} << 24) | (uint64_t{1} << 19), 0, "flush-to-zero"},
    {uint64_t{1} << 25, 0, "default NaN"},
    {0x9F00, 0, "exception masks"}};
#endif

}  // namespace

FloatEnvironment ReadFloatEnvironment() {
  FloatEnvironment environment;
#if defined(__x86_64__)
  environment.vector = _mm_getcsr() & kControlOnly;
  uint16_t word = 0;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  environment.x87 = word;
#else
  __asm__ volatile("mrs %0, fpcr" : "=r"(environment.vector));
#endif
  return environment;
}

void RestoreFloatEnvironment(const FloatEnvironment& environment) {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<uint32_t>(environment.vector));
  const auto word = static_cast<uint16_t>(environment.x87);
  __asm__ volatile("fldcw %0" : : "m"(word));
#else
  __asm__ volatile("msr fpcr, %0" : : "r"(environment.vector));
#endif
}

std::string DescribeChange(const FloatEnvironment& before, const FloatEnvironment& after) {
  std::string changes;
  for (const ControlBits& control : kControls) {
    if (((before.vector ^ after.vector) & control.vector) == 0 &&
        ((before.x87 ^ after.x87) & control.x87) == 0)
      continue;
    if (!changes.empty()) changes += ", ";
    changes += control.name;
  }
  if (changes.empty() && before != after) changes = "control bits without a name";
  return changes;
}

}  // namespace attest
