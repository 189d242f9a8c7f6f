// A plug-in whose table is cut short.
#include <attest/kernel.h>

extern "C" ATTEST_EXPORT const attest_kernel_table* attest_kernel(void) {
  static attest_kernel_table table{};
  table.abi_version = ATTEST_ABI_VERSION;
  table.struct_size = 24;
  return &table;
}
