// Holds a kernel to its own word: for each "bits_invariant" entry of its contract, changes a
// problem in a way that the promise covers and compares bits. For the unit tests of our own
// kernels; the properties ask the same of every kernel, with generators, shrinking and a sandbox.
#ifndef ATTEST_ABI_TESTING_PROMISES_H_
#define ATTEST_ABI_TESTING_PROMISES_H_

#include <random>

#include <gtest/gtest.h>

#include "impl/abi/testing/direct_call.h"
#include "impl/attention/contract.h"

namespace attest {

// Success when `what` leaves the kernel's bits alone on this problem; the failure says what was
// changed. `problem` wants lse and weights. kSplit is not covered: always a failure.
testing::AssertionResult KeepsBits(const DirectKernel& kernel, Invariance what,
                                   const Problem& problem, const Inputs& inputs,
                                   std::mt19937_64& random);

// Success when past and new keys, a ring, pages and, as far as they can carry the problem, packed
// sequences leave the kernel's bits alone, and present outputs are the keys and values.
testing::AssertionResult KeepsBitsInEveryStorage(const DirectKernel& kernel, const Problem& problem,
                                                 const Inputs& inputs);

// Every promise of the contract, each on `rounds` random problems of each promised dtype.
testing::AssertionResult KeepsItsPromises(const DirectKernel& kernel, int rounds);

}  // namespace attest

#endif  // ATTEST_ABI_TESTING_PROMISES_H_
