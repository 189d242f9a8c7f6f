// The exported symbol of attest_kernel_reference.so.
#include "impl/reference/plugin/reference_kernel.h"

const attest_kernel_table* attest_kernel(void) {
  return attest::ReferenceKernelTable();
}
