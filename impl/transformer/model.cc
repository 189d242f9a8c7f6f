#include "impl/transformer/model.h"

#include <fmt/format.h>

#include <atomic>

#include "impl/transformer/stack.h"

namespace attest::transformer {

tl::expected<void, std::string> CheckTokens(const Config& config, const Tokens& tokens,
                                            const std::vector<int64_t>& positions) {
  for (int64_t b = 0; b < tokens.batch; ++b) {
    for (int64_t i = tokens.Begin(b); i < tokens.End(b); ++i) {
      const int64_t id = tokens.Id(b, i),
                    position = positions[static_cast<size_t>(tokens.Row(b, i))];
      if (id < 0 || id >= config.vocab) {
        return tl::unexpected(fmt::format("token {} of sequence {} is {}; there are {} tokens",
                                          i - tokens.Begin(b), b, id, config.vocab));
      }
      if (position < 0 || position >= config.max_len) {
        return tl::unexpected(fmt::format("token {} of sequence {} stands at {}; max_len is {}",
                                          i - tokens.Begin(b), b, position, config.max_len));
      }
    }
  }
  return {};
}

uint64_t NextFaultySeed() {
  static std::atomic<uint64_t> calls = 0;
  return ++calls;
}

template <typename T>
tl::expected<Memory<T>, std::string> Encode(const Model<T>& model, const Tokens& source,
                                            const Attend<T>& attend) {
  const std::vector<int64_t> positions = PositionIds(source, {}, model.config.fault);
  if (auto ok = CheckTokens(model.config, source, PositionIds(source, {})); !ok) {
    return tl::unexpected("source: " + ok.error());
  }
  Pass<T> pass = MakePass<T>(model.config, attend, nullptr);
  const Sight self = SelfSight(source, positions, IsCausal(model.config, /*encoder=*/true));
  StackPass<T> stack{pass, self};
  const Stack<T>& encoder = model.weights.encoder;
  Memory<T> memory{Climb(encoder, stack, Embed(pass, model.weights, encoder, source, positions)),
                   source};
  if (pass.error) return tl::unexpected(*pass.error);
  return memory;
}

template <typename T>
tl::expected<Matrix<T>, std::string> Logits(const Model<T>& model, const Tokens& tokens,
                                            const Memory<T>* memory, const Attend<T>& attend,
                                            Cache<T>* cache) {
  const Config& config = model.config;
  const std::vector<int64_t> past = cache == nullptr ? std::vector<int64_t>{} : cache->count();
  if (auto ok = CheckTokens(config, tokens, PositionIds(tokens, past)); !ok) {
    return tl::unexpected(ok.error());
  }
  Pass<T> pass = MakePass(config, attend, cache);
  if (cache != nullptr) cache->Begin(tokens);
  const std::vector<int64_t> positions =
      PositionIds(tokens, cache == nullptr ? past : cache->before(), config.fault);
  const bool encoder = config.kind == Kind::kEncoder;
  const Sight self = SelfSight(tokens, positions, IsCausal(config, encoder));
  std::optional<Sight> cross;
  if (memory != nullptr) cross.emplace(CrossSight(tokens, memory->places));
  StackPass<T> stack{pass, self, cross ? &*cross : nullptr, memory ? &memory->tokens : nullptr,
                     encoder ? 0 : kDecoderSite};
  const Stack<T>& blocks = encoder ? model.weights.encoder : model.weights.decoder;
  const Matrix<T> top = Climb(blocks, stack, Embed(pass, model.weights, blocks, tokens, positions));
  Matrix<T> logits = Head(pass, model.weights, top);
  if (pass.error) return tl::unexpected(*pass.error);
  return logits;
}

#define ATTEST_INSTANTIATE(T)                                                          \
  template tl::expected<Memory<T>, std::string> Encode(const Model<T>&, const Tokens&, \
                                                       const Attend<T>&);              \
  template tl::expected<Matrix<T>, std::string> Logits(                                \
      const Model<T>&, const Tokens&, const Memory<T>*, const Attend<T>&, Cache<T>*);
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::transformer
