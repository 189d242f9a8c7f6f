/* Plug-ins that must be refused with one clear line, and one that never returns; which one is
 * chosen at compile time. */
#define _POSIX_C_SOURCE 200809L

#include "attest/kernel.h"

#include <unistd.h>

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
#ifdef BAD_PLUGIN_HANGS
  return "{\"contract\": \"attest-1\"}";
#else
  return "{\"contract\": \"attest-1\", \"dtypes\": [\"f33\"]}";
#endif
}

static attest_status Forward(void* kernel, attest_call* call) {
  (void)kernel;
  (void)call;
#ifdef BAD_PLUGIN_HANGS
  for (;;) pause();
#endif
  return ATTEST_FAILED;
}

static void Destroy(void* kernel) {
  (void)kernel;
}

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

ATTEST_EXPORT const attest_kernel_table* attest_kernel(void) {
  return &kTable;
}

#else

ATTEST_EXPORT int not_a_kernel(void);
int not_a_kernel(void) {
  return 0;
}

#endif
