// The exported symbol of attest_kernel_tiled.so.
#include "impl/tiled/tiled.h"

const attest_kernel_table* attest_kernel(void) {
  return attest::TiledKernelTable();
}
