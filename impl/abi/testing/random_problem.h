// Random problems with random features, for the unit tests of kernels. (The harness has generators of
// its own, properties/harness/case; impl may not use them, and a unit test needs no shrinking.)
#ifndef ATTEST_ABI_TESTING_RANDOM_PROBLEM_H_
#define ATTEST_ABI_TESTING_RANDOM_PROBLEM_H_

#include <cstdint>
#include <random>

#include "impl/attention/problem.h"

namespace attest {

// A valid problem with sizes from 0 to some 40 and causality, windows, key lengths, mask and bias in
// random company; lse and weights wanted.
Problem RandomProblem(std::mt19937_64& random, DType dtype);

// Adds the rest of attention, each feature once in a few: softcap, ALiBi, sinks, query and prefix
// lengths, documents, a block mask, dropout, an f32 bias, a scores output, 8-bit inputs.
void AddRandomFeatures(std::mt19937_64& random, Problem& problem);

// Inputs of about unit size, rounded to their type; bias as the problem's plane has it.
Inputs RandomInputs(std::mt19937_64& random, const Problem& problem);

// Writes NaN into every key and value that no row sees.
void PoisonHidden(const Problem& problem, Inputs& inputs);

}  // namespace attest

#endif  // ATTEST_ABI_TESTING_RANDOM_PROBLEM_H_
