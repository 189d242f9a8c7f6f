// The exported symbol of attest_kernel_model-mutant.so.
#include "impl/transformer/model_table.h"

const attest_model_table* attest_model(void) {
  return attest::transformer::MutantTable();
}
