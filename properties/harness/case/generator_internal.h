// The parts of the generator, for generator.cc alone.
#ifndef ATTEST_HARNESS_CASE_GENERATOR_INTERNAL_H_
#define ATTEST_HARNESS_CASE_GENERATOR_INTERNAL_H_

#include <cstdint>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/random.h"

namespace attest {

// What may be on or off in a problem. Most real faults need two of them at once.
enum class Flag {
  kCausal,
  kWindow,
  kKeyLengths,
  kMask,
  kBias,
  kQueryLengths,
  kPrefix,
  kDocuments,
  kBlockMask,
  kSoftcap,
  kAlibi,
  kSinks,
  kDropout,
  kFp8,
  kStorage,
};

// What the sizes of a case are chosen for.
enum class SizeClass {
  kOrdinary,
  kModel,  // those of a real model
  kSeam,   // q_len, kv_len or both at the edge of a kernel's tile, the rest tiny
};

// Sets the seven sizes within the contract's features and limits and the work budget.
SizeClass DrawSizes(Draw& draw, int size, const Contract& contract, const GeneratorOptions& options,
                    Problem& problem);

// A boolean mask for a problem whose sizes are set.
BitPlane DrawMask(Draw& draw, const Contract& contract, const Problem& problem);

// Where an additive mask is -inf: mostly nowhere, since a finite bias is the usual one.
BitPlane DrawBiasPlane(Draw& draw, const Contract& contract, const Problem& problem);

// A length of 0..most: the ends most often.
int64_t DrawLength(Draw& draw, int64_t most);

// With Flag::kStorage one of the kinds on offer. Packed sequences set their lengths here; flags
// that a kind rules out go, and one that it needs comes.
void DrawStorage(Draw& draw, const Contract& contract, std::vector<Flag>& flags, Case& c);

// Slopes [q_heads]: the published ones half the time.
std::vector<double> DrawAlibi(Draw& draw, const Problem& problem);

// Query lengths, prefixes (of causal problems), documents, block mask, softcap, sinks, dropout and
// 8-bit inputs, as flagged.
void DrawFeatures(Draw& draw, const Contract& contract, const std::vector<Flag>& flags,
                  Problem& problem);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_GENERATOR_INTERNAL_H_
