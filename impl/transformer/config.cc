#include "impl/transformer/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <string_view>
#include <vector>

namespace attest::transformer {
namespace {

// A value of an option and what it chooses.
template <typename E>
struct Word {
  std::string_view text;
  E choice;
};

constexpr Word<Positions> kPositionWords[] = {{"none", Positions::kNone},
                                              {"sinusoidal", Positions::kSinusoidal},
                                              {"learned", Positions::kLearned},
                                              {"rope", Positions::kRopeHalf},
                                              {"rope-interleaved", Positions::kRopeInterleaved},
                                              {"alibi", Positions::kAlibi}};
constexpr Word<NormKind> kNormWords[] = {{"layer", NormKind::kLayer}, {"rms", NormKind::kRms}};
constexpr Word<Placement> kPlacementWords[] = {{"pre", Placement::kPre},
                                               {"post", Placement::kPost}};
constexpr Word<Activation> kActivationWords[] = {{"gelu", Activation::kGelu},
                                                 {"swiglu", Activation::kSwiGlu}};
constexpr Word<CacheKind> kCacheWords[] = {{"contiguous", CacheKind::kContiguous},
                                           {"paged", CacheKind::kPaged},
                                           {"ring", CacheKind::kRing}};
constexpr Word<bool> kBoolWords[] = {{"false", false}, {"true", true}};

// An option's value, still to be put where its key says.
struct Option {
  std::string_view key, value;
  bool known = false;  // its key
  std::string error = {};

  template <typename E, size_t kWords>
  void Choose(std::string_view name, const Word<E> (&words)[kWords], E& field) {
    if (key != name) return;
    known = true;
    std::vector<std::string_view> there;
    for (const auto& [word, choice] : words) {
      if (word == value) {
        field = choice;
        return;
      }
      there.push_back(word);
    }
    error = fmt::format("option {}: \"{}\" is none of {}", key, value, fmt::join(there, ", "));
  }
  template <typename Integer>
  void Count(std::string_view name, Integer& field) {
    if (key != name) return;
    known = true;
    Integer number = 0;
    const char* const end = value.data() + value.size();
    const auto [rest, code] = std::from_chars(value.data(), end, number);
    if (code == std::errc() && rest == end && number <= Integer{4096}) {
      field = number;
    } else {
      error = fmt::format("option {}: \"{}\" is no integer up to 4096", key, value);
    }
  }
};

void Apply(Option& option, Config& c) {
  option.Choose("positions", kPositionWords, c.positions);
  option.Choose("norm", kNormWords, c.norm);
  option.Choose("placement", kPlacementWords, c.placement);
  option.Choose("activation", kActivationWords, c.activation);
  option.Choose("cache", kCacheWords, c.cache);
  option.Choose("tied", kBoolWords, c.tied);
  option.Choose("packed", kBoolWords, c.packed);
  option.Count("vocab", c.vocab);
  option.Count("dim", c.dim);
  option.Count("heads", c.heads);
  option.Count("kv_heads", c.kv_heads);
  option.Count("layers", c.layers);
  option.Count("hidden", c.hidden);
  option.Count("max_len", c.max_len);
  option.Count("window", c.window);
  option.Count("page_size", c.page_size);
  option.Count("seed", c.seed);
  if (!option.known) {
    option.error = fmt::format(
        "option {} is unknown; there are positions, norm, placement, activation, cache, tied, "
        "packed, vocab, dim, heads, kv_heads, layers, hidden, max_len, window, page_size, seed",
        option.key);
  }
}

Config Gpt() {
  Config c;
  c.positions = Positions::kLearned;
  c.norm = NormKind::kLayer;
  c.activation = Activation::kGelu;
  c.kv_heads = c.heads;
  c.tied = c.packed = true;
  c.max_len = 16;
  c.dropout = 0.1;
  return c;
}

// As the Transformer was first published, but for GELU.
Config Original(Kind kind) {
  Config c;
  c.kind = kind;
  c.positions = Positions::kSinusoidal;
  c.norm = NormKind::kLayer;
  c.placement = Placement::kPost;
  c.activation = Activation::kGelu;
  c.kv_heads = c.heads;
  return c;
}

}  // namespace

Config BaseConfig(Base base) {
  Config c;
  switch (base) {
    case Base::kDecoder:
      return c;
    case Base::kGpt:
    case Base::kBatcher:
      return Gpt();
    case Base::kStream:
      c = Gpt();
      c.rows = Rows::kStream;
      return c;
    case Base::kChunks:
      c = Gpt();
      c.rows = Rows::kChunks;
      return c;
    case Base::kAlibi:
      c.positions = Positions::kAlibi;
      return c;
    case Base::kWindowed:
      c.window = 4;
      c.cache = CacheKind::kRing;
      return c;
    case Base::kPaged:
      c.cache = CacheKind::kPaged;
      return c;
    case Base::kEncoder:
      return Original(Kind::kEncoder);
    case Base::kEncoderDecoder:
      return Original(Kind::kEncoderDecoder);
  }
  return c;
}

tl::expected<Config, std::string> WithOptions(Config config,
                                              const std::map<std::string, std::string>& options) {
  for (const auto& [key, value] : options) {
    Option option{key, value};
    Apply(option, config);
    if (!option.error.empty()) return tl::unexpected(option.error);
  }
  if (auto ok = CheckConfig(config); !ok) return tl::unexpected(ok.error());
  return config;
}

tl::expected<void, std::string> CheckConfig(const Config& c) {
  for (const int64_t size :
       {c.vocab, c.dim, c.heads, c.kv_heads, c.hidden, c.max_len, c.page_size}) {
    if (size < 1)
      return tl::unexpected(
          std::string("vocab, dim, heads, kv_heads, hidden, max_len and page_size "
                      "are at least 1"));
  }
  if (c.layers < 0 || c.window < 0)
    return tl::unexpected(std::string("layers and window are at least 0"));
  if (c.dim % c.heads != 0) {
    return tl::unexpected(fmt::format("heads = {} does not divide dim = {}", c.heads, c.dim));
  }
  if (c.heads % c.kv_heads != 0) {
    return tl::unexpected(
        fmt::format("kv_heads = {} does not divide heads = {}", c.kv_heads, c.heads));
  }
  if (c.rope() && c.head_dim() % 2 != 0) {
    return tl::unexpected(fmt::format("RoPE needs an even dim / heads, not {}", c.head_dim()));
  }
  if (c.cache == CacheKind::kRing && c.window == 0) {
    return tl::unexpected(
        std::string("a ring needs a window: its slots are the tokens that are seen"));
  }
  if (c.window != 0 && c.kind != Kind::kDecoder) {
    return tl::unexpected(std::string("only decoders have a window"));
  }
  return {};
}

}  // namespace attest::transformer
