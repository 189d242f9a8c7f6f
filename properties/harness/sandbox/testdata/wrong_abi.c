/* A plug-in of a version that does not exist. */
#include <attest/kernel.h>

const attest_kernel_table* attest_kernel(void) {
  static const attest_kernel_table table = {.abi_version = 999, .struct_size = sizeof table};
  return &table;
}
