// The exported symbol of attest_kernel_mutant.so.
#include "impl/mutants/plain.h"

const attest_kernel_table* attest_kernel(void) {
  return attest::MutantKernelTable();
}
