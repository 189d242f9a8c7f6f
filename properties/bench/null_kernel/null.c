/* The kernel that computes nothing: out is q. For `attest_bench workers`. */
#include <attest/kernel.h>
#include <string.h>

static const char kContract[] = "{\"contract\": \"attest-1\", \"dtypes\": [\"f32\"]}";

static attest_status create(const attest_create_info* info, void** kernel) {
  return (void)info, (void)kernel, ATTEST_OK;
}
static const char* contract(void* kernel) {
  return (void)kernel, kContract;
}
static void destroy(void* kernel) {
  (void)kernel;
}

static attest_status forward(void* kernel, attest_call* call) {
  const DLTensor *q = NULL, *out = NULL;
  for (uint32_t n = 0; n < call->num_arguments; ++n) {
    if (call->arguments[n].role == ATTEST_ROLE_Q) q = call->arguments[n].tensor;
    if (call->arguments[n].role == ATTEST_ROLE_OUT) out = call->arguments[n].tensor;
  }
  if (q == NULL || out == NULL) return ATTEST_INVALID_ARGUMENT;
  size_t bytes = sizeof(float);
  for (int32_t axis = 0; axis < q->ndim; ++axis) bytes *= (size_t)q->shape[axis];
  memcpy(out->data, q->data, bytes);
  return (void)kernel, ATTEST_OK;
}

static const attest_kernel_table kTable = {.abi_version = ATTEST_ABI_VERSION,
                                           .struct_size = sizeof(attest_kernel_table),
                                           .name = "null",
                                           .version = "1",
                                           .create = create,
                                           .contract = contract,
                                           .forward = forward,
                                           .destroy = destroy};
const attest_kernel_table* attest_kernel(void) {
  return &kTable;
}
