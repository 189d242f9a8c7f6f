// What a model of this folder is made of: its kind, sizes and choices, as plain values, and the
// built-in configurations. Everything else here takes a Config.
#ifndef ATTEST_TRANSFORMER_CONFIG_H_
#define ATTEST_TRANSFORMER_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>

#include "impl/transformer/faults.h"

namespace attest::transformer {

enum class Kind {
  kDecoder,         // a language model: logits of the next token
  kEncoder,         // every token sees all tokens; logits of a token at each position
  kEncoderDecoder,  // a decoder that also sees an encoded source
};

// How a model knows where a token stands.
enum class Positions {
  kNone,
  kSinusoidal,       // a fixed table, added to the embedding
  kLearned,          // a learned table, added to the embedding
  kRopeHalf,         // queries and keys rotated, component i with i + head_dim / 2
  kRopeInterleaved,  // likewise, component 2 i with 2 i + 1
  kAlibi,            // scores lowered by slope * distance
};

enum class NormKind { kLayer, kRms };
enum class Placement { kPre, kPost };  // of the norm: before a sub-layer, or after its residual
enum class Activation { kGelu, kSwiGlu };
enum class CacheKind { kContiguous, kPaged, kRing };
// What documents become to be learnt from (batcher.h).
enum class Rows {
  kPadded,  // MakeLesson
  kStream,  // MakeStreamLesson
  kChunks,  // MakeChunkLesson
};

struct Config {
  Kind kind = Kind::kDecoder;
  int64_t vocab = 13;
  int64_t dim = 16;      // of a token's vector; a multiple of heads
  int64_t heads = 4;     // of queries
  int64_t kv_heads = 2;  // divides heads
  int64_t layers = 2;
  int64_t hidden = 24;   // of the feed-forward
  int64_t max_len = 48;  // tokens a sequence, at most
  Positions positions = Positions::kRopeHalf;
  NormKind norm = NormKind::kRms;
  Placement placement = Placement::kPre;
  Activation activation = Activation::kSwiGlu;
  bool tied = false;    // the embedding is the head, too, and is scaled by sqrt(dim)
  bool packed = false;  // Wq, Wk and Wv in one matrix
  int64_t window = 0;   // tokens that a token of a decoder sees, itself included; 0 = all before it
  CacheKind cache = CacheKind::kContiguous;
  int64_t page_size = 4;      // of a paged cache, in tokens
  Rows rows = Rows::kPadded;  // that its batcher makes
  double dropout = 0;         // share of what sub-layers give that training drops
  uint64_t seed = 1;          // of the initial weights
  Fault fault = Fault::kNone;

  int64_t head_dim() const { return dim / heads; }
  int64_t kv_dim() const { return kv_heads * head_dim(); }
  bool rope() const {
    return positions == Positions::kRopeHalf || positions == Positions::kRopeInterleaved;
  }
};

// The configuration of a built-in model, without a fault.
Config BaseConfig(Base base);

// Replaces fields by name, as in `model:decoder?positions=learned`: positions, norm, placement,
// activation, cache, tied, packed, vocab, dim, heads, kv_heads, layers, hidden, max_len, window,
// page_size, seed. An unknown key or value is an error that names it and what there is.
tl::expected<Config, std::string> WithOptions(Config config,
                                              const std::map<std::string, std::string>& options);

// An error where sizes contradict one another, in one line.
tl::expected<void, std::string> CheckConfig(const Config& config);

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_CONFIG_H_
