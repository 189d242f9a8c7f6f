// What a backward call is to the worker and to the fuzzer's runner: the forward call with more tensors,
// whose outputs have become inputs.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_BACKWARD_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_BACKWARD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <attest/kernel.h>

namespace attest {

// Puts the gradients' tensors behind all others and returns how many stand before them: a forward
// call's.
uint32_t PutGradientsLast(std::span<attest_argument> arguments);

// Runs a call's forward pass, the first `forward` arguments, and, where there are more and it returned
// OK, its backward pass. A table without one answers ATTEST_FAILED, with a message. `changed` becomes
// the role of a forward output that the backward pass changed, else 0.
attest_status RunPasses(const attest_kernel_table& table, void* kernel, attest_call* call,
                        uint32_t forward, int32_t* changed);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_BACKWARD_H_
