// Random problems with every feature, for the unit tests of kernels. (The harness has generators of
// its own, properties/harness/case; impl may not use them, and a unit test needs no shrinking.)
#ifndef ATTEST_ABI_TESTING_RANDOM_PROBLEM_H_
#define ATTEST_ABI_TESTING_RANDOM_PROBLEM_H_

#include <cstdint>
#include <random>

#include "impl/attention/problem.h"

namespace attest {

// A valid problem with sizes from 0 to some 40, features in random company, lse and weights wanted.
Problem RandomProblem(std::mt19937_64& random, DType dtype);

// Inputs of about unit size, rounded to the dtype; bias as the problem's plane has it.
Inputs RandomInputs(std::mt19937_64& random, const Problem& problem);

// Writes NaN into every key and value that no row sees.
void PoisonHidden(const Problem& problem, Inputs& inputs);

}  // namespace attest

#endif  // ATTEST_ABI_TESTING_RANDOM_PROBLEM_H_
