// The elements of a tensor as the kernel sees it.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_ELEMENTS_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_ELEMENTS_H_

#include <cstddef>
#include <vector>

#include <attest/kernel.h>

namespace attest {

// Their bytes, one element behind the other, the last index running fastest; what lies between them in memory need not
// be there.
std::vector<std::byte> ElementsOf(const DLTensor& tensor);

// Whether they lie so in memory already.
bool IsDense(const DLTensor& tensor);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_ELEMENTS_H_
