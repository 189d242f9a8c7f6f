// A plug-in built for another ABI version.
#include <attest/kernel.h>

extern "C" ATTEST_EXPORT const attest_kernel_table* attest_kernel(void) {
  static attest_kernel_table table{};
  table.abi_version = ATTEST_ABI_VERSION + 6;
  table.struct_size = sizeof table;
  return &table;
}
