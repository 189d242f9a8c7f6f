// A target that does nothing: what libFuzzer itself costs, beside which the others are measured.
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) {
  return 0;
}
