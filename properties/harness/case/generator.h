// Draws random cases for the properties: sizes across every seam, flags in pairs, exact data
// families first, empty rows first, in the middle and last. Independent of RapidCheck, so that the
// suites, the fuzzers and the exhaustive sweep draw alike.
#ifndef ATTEST_HARNESS_CASE_GENERATOR_H_
#define ATTEST_HARNESS_CASE_GENERATOR_H_

#include <cstdint>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"

namespace attest {

struct GeneratorOptions {
  int64_t max_len = 40;         // of q_len and kv_len in ordinary cases
  int64_t max_dim = 24;         // of head_dim and value_dim in ordinary cases
  int64_t max_long_len = 4096;  // of kv_len in one case in 32; those keep everything else small
  int64_t ordinary_per_model = 128;  // one case in so many has sizes of a real model
  int64_t seams_per_model = 10;  // beside each of those so many lie at the edge of a kernel's tile
};

// Returns a valid case that depends only on the arguments. `size` (0 to 100) scales the dimensions,
// as RapidCheck does. Nineteen cases in twenty lie within what the contract offers (dtypes,
// features, layouts, limits); the twentieth may ask for anything, to see that it is refused
// properly.
Case DrawCase(uint64_t seed, int size, const Contract& contract,
              const GeneratorOptions& options = {});

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_GENERATOR_H_
