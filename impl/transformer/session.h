// Generation with a cache: a prompt, then token after token, with the beams of a search reordered
// between. Whatever the chunks, the logits are those that Logits gives for the whole.
#ifndef ATTEST_TRANSFORMER_SESSION_H_
#define ATTEST_TRANSFORMER_SESSION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "impl/transformer/model.h"

namespace attest::transformer {

template <typename T>
class Session {
 public:
  // For `batch` sequences of a model that outlives it; `memory` is what an encoder-decoder needs.
  Session(const Model<T>& model, int64_t batch, std::optional<Memory<T>> memory = {},
          Attend<T> attend = PlainAttend<T>())
      : model_(&model),
        memory_(std::move(memory)),
        attend_(std::move(attend)),
        cache_(model.config, batch) {}

  // Logits [batch * len, vocab] of tokens that come behind what there is. Items may be of any
  // length, 0 included; padding is not cached. Errors are those of Logits; the session is of no use
  // then.
  tl::expected<Matrix<T>, std::string> Append(const Tokens& tokens);

  // Item n goes on from item parents[n]; who is no one's parent is evicted.
  void Reorder(std::span<const int64_t> parents);

  // Tokens of each item so far.
  const std::vector<int64_t>& count() const { return cache_.count(); }
  int64_t batch() const { return cache_.batch(); }
  int64_t cache_bytes() const { return cache_.bytes(); }

 private:
  const Model<T>* model_;
  std::optional<Memory<T>> memory_;
  Attend<T> attend_;
  Cache<T> cache_;
};

// `count` tokens behind each prompt, each the most likely one (the lower of equals), from a
// decoder. With a cache, or computing everything anew for each token: the same tokens.
template <typename T>
tl::expected<std::vector<std::vector<int64_t>>, std::string> Generate(
    const Model<T>& model, std::vector<std::vector<int64_t>> prompts, int64_t count,
    bool with_cache);

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_SESSION_H_
