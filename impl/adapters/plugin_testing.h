// What the tests of plug-ins that are linked to a third-party library share: the plug-in as the worker
// sees it, and a mask.
#ifndef ATTEST_ADAPTERS_PLUGIN_TESTING_H_
#define ATTEST_ADAPTERS_PLUGIN_TESTING_H_

#include <dlfcn.h>

#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "impl/attention/problem.h"

namespace attest {

// The table of the plug-in at `path`, which stays loaded; null, and a failure that says why, where it
// cannot be loaded.
inline const attest_kernel_table* OpenPlugin(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* entry = library == nullptr ? nullptr : dlsym(library, "attest_kernel");
  if (entry == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return reinterpret_cast<decltype(&attest_kernel)>(entry)();
}

// A mask in which every row sees a key of three or more, and neighbouring rows, heads and items see
// different ones.
inline BitPlane Stripes(const Shape4& shape, int rank) {
  BitPlane plane{shape, rank, {}};
  const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
  for (int64_t n = 0; n < count; ++n) {
    const int64_t j = n % shape[3], i = n / shape[3] % shape[2];
    const int64_t item = n / (shape[3] * shape[2]);
    plane.bits.push_back((item + i + j) % 3 != 0);
  }
  return plane;
}

}  // namespace attest

#endif  // ATTEST_ADAPTERS_PLUGIN_TESTING_H_
