// The parts of the generator, for generator.cc alone.
#ifndef ATTEST_HARNESS_CASE_GENERATOR_INTERNAL_H_
#define ATTEST_HARNESS_CASE_GENERATOR_INTERNAL_H_

#include <cstdint>

#include "impl/attention/contract.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/random.h"

namespace attest {

// Sets the seven sizes within the contract's features and limits and the work budget.
void DrawSizes(Draw& draw, int size, const Contract& contract, const GeneratorOptions& options,
               Problem& problem);

// A boolean mask for a problem whose sizes are set.
BitPlane DrawMask(Draw& draw, const Contract& contract, const Problem& problem);

// Where an additive mask is -inf: mostly nowhere, since a finite bias is the usual one.
BitPlane DrawBiasPlane(Draw& draw, const Contract& contract, const Problem& problem);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_GENERATOR_INTERNAL_H_
