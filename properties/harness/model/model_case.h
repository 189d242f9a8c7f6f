// A case of a model's property: sequences of tokens, literally, and how they come to the model. Everything that
// a property draws is in it, so that a case file says all. Callers: the model's properties, the runner, replay.
#ifndef ATTEST_HARNESS_MODEL_MODEL_CASE_H_
#define ATTEST_HARNESS_MODEL_MODEL_CASE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/model/contract.h"

namespace attest {

using Sequence = std::vector<int64_t>;

struct ModelCase {
  // One for each item, padding not counted; others are as long, token by token another: what a property
  // changes tokens to, and what an earlier request has.
  std::vector<Sequence> tokens, others;
  std::vector<Sequence> sources, other_sources;  // of an encoder_decoder; else empty
  PaddingSide side = PaddingSide::kNone;
  int64_t extra = 0;  // padding beyond that which the longest sequence makes necessary
  int64_t filler = 0, other_filler = 0;  // what padding holds, and what a property changes it to
  std::vector<int64_t> first_position;   // one an item; empty = 0
  // A generation, where there is one: the cache, the tokens of each chunk after the prompt, and for
  // each of them whom an item goes on from (as many lists as chunks, or none).
  std::string cache;
  std::vector<int64_t> chunks;
  std::vector<std::vector<int64_t>> parents;
  // What a batcher gets, where there is one.
  std::vector<Sequence> documents;
  int64_t row_len = 0;
  uint64_t seed = 0;  // of what a property draws beside it
  std::string origin;

  int64_t batch() const { return static_cast<int64_t>(tokens.size()); }
  int64_t len() const;   // of a row: that of the longest sequence and the extra padding
  int64_t tail() const;  // tokens in chunks
};

// What of a case a property uses: the rest is not drawn.
enum ModelPart : uint32_t {
  kPartBatch = 1,  // sequences of several items, padded where the contract has padding
  kPartOthers = 2,
  kPartChunks = 4,
  kPartBeams = 8,
  kPartPosition = 16,
  kPartDocuments = 32,
};

// Draws a case that uses `parts` and that the contract takes. `size` is from 0 to 100: small cases are drawn at
// every size, long ones at large sizes alone.
ModelCase DrawModelCase(uint64_t seed, int size, const ModelContract& contract, uint32_t parts);

// Why the contract does not take the case; "" = it does. Case files are asked about, drawn cases are fine.
std::string WhyInvalid(const ModelCase& c, const ModelContract& contract);

// Cases a little smaller than `c`, the smallest first; they end, for each has fewer tokens, less of a part, or
// tokens that are lower.
std::vector<ModelCase> ShrinkCandidates(const ModelCase& c, const ModelContract& contract);

bool SameCase(const ModelCase& a, const ModelCase& b);

// A case file.
struct ModelCaseFile {
  ModelCase c;
  std::string property;
  std::string model;    // as the user named it
  std::string against;  // the model beside it; empty = none
  std::string finding;  // a sentence
};
std::string ToToml(const ModelCaseFile& file);
// The error is one line: where, what.
tl::expected<ModelCaseFile, std::string> ParseModelCase(const std::string& text,
                                                        const std::string& path);
// Whether a file is a model's case, and not one of a kernel.
bool IsModelCase(const std::string& text);

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_MODEL_CASE_H_
