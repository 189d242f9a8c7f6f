// What a kernel is made of, as a hash: so that a night knows whether the kernel that it goes on with is the one that
// its findings are of. A kernel that was built anew mostly keeps its version.
#ifndef ATTEST_HARNESS_NIGHT_KERNEL_CONTENT_H_
#define ATTEST_HARNESS_NIGHT_KERNEL_CONTENT_H_

#include <string>

#include "properties/harness/sandbox/session.h"

namespace attest {

// Of the contents of the kernel's library or source file and of what its worker says was loaded with it, wherever
// they lie; 16 digits. A file that cannot be read counts as empty.
std::string ContentOf(const KernelSpec& spec, const KernelIdentity& identity);

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_KERNEL_CONTENT_H_
