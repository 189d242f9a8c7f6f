/* Plug-ins that must be refused with one clear line; which one is chosen at compile time. */
#include "attest/kernel.h"

#ifndef BAD_PLUGIN_NO_SYMBOL

#ifndef BAD_PLUGIN_ABI_VERSION
#define BAD_PLUGIN_ABI_VERSION ATTEST_ABI_VERSION
#endif

static attest_status Create(const attest_create_info* info, void** kernel) {
  (void)info;
  *kernel = 0;
  return ATTEST_OK;
}

static const char* Contract(void* kernel) {
  (void)kernel;
  return "{\"contract\": \"attest-1\", \"dtypes\": [\"f33\"]}";
}

static attest_status Forward(void* kernel, attest_call* call) {
  (void)kernel;
  (void)call;
  return ATTEST_FAILED;
}

static void Destroy(void* kernel) { (void)kernel; }

static const attest_kernel_table kTable = {
    .abi_version = BAD_PLUGIN_ABI_VERSION,
    .struct_size = sizeof(attest_kernel_table),
    .name = "bad",
    .version = "1",
    .create = Create,
    .contract = Contract,
    .forward = Forward,
    .destroy = Destroy,
};

ATTEST_EXPORT const attest_kernel_table* attest_kernel(void) { return &kTable; }

#else

ATTEST_EXPORT int not_a_kernel(void);
int not_a_kernel(void) { return 0; }

#endif
