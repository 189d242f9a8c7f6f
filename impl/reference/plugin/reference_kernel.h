// The dense double reference as a plug-in like any other: what the harness's own oracle says,
// rounded to the call's dtype. A kernel under test for the harness itself: every property must pass
// on it.
#ifndef ATTEST_REFERENCE_PLUGIN_REFERENCE_KERNEL_H_
#define ATTEST_REFERENCE_PLUGIN_REFERENCE_KERNEL_H_

#include "impl/abi/attest/kernel.h"

namespace attest {

// The plug-in's table; no create options.
const attest_kernel_table* ReferenceKernelTable();

}  // namespace attest

#endif  // ATTEST_REFERENCE_PLUGIN_REFERENCE_KERNEL_H_
