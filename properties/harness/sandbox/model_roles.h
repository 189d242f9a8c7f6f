// The numbers under which a model's calls travel to its worker, which impl/abi/PROTOCOL.md describes. A model's
// call is a kernel's call with other roles, so that all that a session does for kernels it does for models.
#ifndef ATTEST_HARNESS_SANDBOX_MODEL_ROLES_H_
#define ATTEST_HARNESS_SANDBOX_MODEL_ROLES_H_

#include <cstdint>

namespace attest {

// What a call asks of a model.
enum class ModelOperation : int64_t {
  kLogits = 0,    // tokens in, logits out
  kGenerate = 1,  // the same through a cache: opened, fed chunk by chunk, closed
  kBatch = 2,     // documents in, rows of inputs, targets and weights out
};

enum ModelOption : int32_t {
  kModelOperation = 64,  // ModelOperation
  kModelPadding = 65,    // attest_padding
  kModelCacheKind = 66,  // index into kCacheKinds
};

// Spelled as in contracts.
inline constexpr const char* kCacheKinds[] = {"contiguous", "paged", "ring"};

enum ModelRole : int32_t {
  // outputs
  kModelLogits = 80,      // [batch, len, vocab]
  kModelInputs = 81,      // i64 [rows, len]
  kModelTargets = 82,     // i64 [rows, len]
  kModelWeights = 83,     // f32 [rows, len]
  kModelRows = 84,        // i64 [1]: rows in use
  kModelCacheBytes = 85,  // i64 [chunks]: after each
  // inputs, all i64; below the outputs, as all inputs of forward calls are
  kModelTokens = 40,         // [batch, len]
  kModelLengths = 41,        // [batch]
  kModelSource = 42,         // [batch, source_len]
  kModelSourceLengths = 43,  // [batch]
  kModelFirstPosition = 44,  // [batch]
  kModelChunks = 45,         // [chunks]: tokens of each, the padded prompt first; they sum to len
  kModelParents = 46,        // [chunks, batch]: the reordering before each chunk; absent = none
  kModelDecoy =
      47,  // [batch, len]: tokens of a second cache, fed in the same chunks; absent = none
  kModelDocuments = 48,        // [sum of document lengths]
  kModelDocumentLengths = 49,  // [documents]
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_MODEL_ROLES_H_
