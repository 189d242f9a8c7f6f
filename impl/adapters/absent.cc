// A plug-in in the place of an adapter whose library was not there when attest was built: its name is
// known, and create says in one line how to get it. ATTEST_ABSENT_NAME and ATTEST_ABSENT_NEEDS come
// from CMake.
#include <string>

#include "attest/kernel.h"
#include "impl/abi/kernel_table.h"

namespace {

attest_status Create(const attest_create_info* info, void** kernel) {
  if (info == nullptr || kernel == nullptr) return ATTEST_INVALID_ARGUMENT;
  const std::string name = ATTEST_ABSENT_NAME;
  attest::WriteMessage(
      name + " is not built, for " ATTEST_ABSENT_NEEDS " was not there: run ci/setup --with " +
          name + ", then cmake --preset release, and build again",
      info->message, info->message_size);
  return ATTEST_UNSUPPORTED;
}

// No instance is ever made, so that none of these is called.
const char* Contract(void*) {
  return "{}";
}
attest_status Forward(void*, attest_call*) {
  return ATTEST_FAILED;
}
void Destroy(void*) {}

constexpr attest_kernel_table kTable = {ATTEST_ABI_VERSION,
                                        sizeof(attest_kernel_table),
                                        ATTEST_ABSENT_NAME,
                                        "absent",
                                        Create,
                                        Contract,
                                        Forward,
                                        /*backward=*/nullptr,
                                        Destroy,
                                        /*cache_open=*/nullptr,
                                        /*cache_append=*/nullptr,
                                        /*cache_attend=*/nullptr,
                                        /*cache_close=*/nullptr};

}  // namespace

const attest_kernel_table* attest_kernel(void) {
  return &kTable;
}
