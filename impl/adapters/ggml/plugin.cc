// The exported symbol of attest_kernel_ggml.so.
#include "impl/adapters/ggml/ggml_kernel.h"

const attest_kernel_table* attest_kernel(void) {
  return attest::GgmlKernelTable();
}
