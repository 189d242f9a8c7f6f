// The dense double reference as a plug-in like any other: what the harness's own oracle says,
// rounded to the call's dtype. A kernel under test for the harness itself: every property must pass
// on it.
#ifndef ATTEST_REFERENCE_PLUGIN_REFERENCE_KERNEL_H_
#define ATTEST_REFERENCE_PLUGIN_REFERENCE_KERNEL_H_

#include "impl/abi/attest/kernel.h"

namespace attest {

// The plug-in's table. Create option: contract=NAME, a published contract whose conventions it then
// follows and declares (see emulation.h).
const attest_kernel_table* ReferenceKernelTable();

}  // namespace attest

#endif  // ATTEST_REFERENCE_PLUGIN_REFERENCE_KERNEL_H_
