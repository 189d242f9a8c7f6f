// What a contract's backward pass takes, in the terms of its forward pass.
#ifndef ATTEST_HARNESS_CASE_GRADIENTS_H_
#define ATTEST_HARNESS_CASE_GRADIENTS_H_

#include "impl/attention/contract.h"

namespace attest {

// The contract of backward calls: the same kernel's, which must have them, with no other features than
// those calls carry, and none of the outputs and storages that none of them has. Cases that want
// gradients are lowered to it.
Contract BackwardContract(const Contract& contract);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_GRADIENTS_H_
