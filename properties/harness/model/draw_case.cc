// Draws model cases, and says which cases a contract takes.
#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/model/model_case.h"

namespace attest {
namespace {

// Most faults show within a few tokens, and small cases are what is read in the end.
constexpr int64_t kShort = 6, kMiddling = 14, kLong = 40;
constexpr int64_t kEarly = 64;  // of the positions that a sequence begins at

int64_t DrawLongest(Draw& draw, int size, int64_t most) {
  int64_t limit = kShort;
  if (size > 50) limit = kMiddling;
  if (size > 80 && draw.OneIn(8)) limit = kLong;
  return draw.Between(1, std::min(limit, most));
}

// One token is another one of the vocabulary.
int64_t OtherThan(Draw& draw, int64_t token, int64_t vocab) {
  return (token + draw.Between(1, vocab - 1)) % vocab;
}

Sequence DrawSequence(Draw& draw, int64_t len, int64_t vocab) {
  Sequence sequence;
  for (int64_t i = 0; i < len; ++i) sequence.push_back(draw.Below(vocab));
  return sequence;
}

std::vector<Sequence> DrawOthers(Draw& draw, const std::vector<Sequence>& all, int64_t vocab) {
  std::vector<Sequence> others = all;
  for (Sequence& sequence : others) {
    for (int64_t& token : sequence) token = OtherThan(draw, token, vocab);
  }
  return others;
}

class CaseDraw {
 public:
  CaseDraw(uint64_t seed, int size, const ModelContract& contract, uint32_t parts)
      : draw_(seed), size_(size), contract_(contract), parts_(parts) {}

  ModelCase Make() {
    if (Has(kPartDocuments)) return MakeDocuments();
    const int64_t batch = Has(kPartBatch) ? draw_.Between(1, 4) : 1;
    if (Has(kPartBatch) && !contract_.padding.empty()) c_.side = draw_.Pick(contract_.padding);
    const int64_t longest = DrawLongest(draw_, size_, contract_.max_len);
    if (Has(kPartChunks) && !contract_.caches.empty()) MakeGeneration(longest, batch);
    MakeTokens(longest, batch);
    MakePadding();
    if (Has(kPartPosition) && contract_.first_position) MakePositions();
    c_.seed = draw_.Bits() >> 1;  // TOML's integers are signed
    return std::move(c_);
  }

 private:
  bool Has(ModelPart part) const { return (parts_ & part) != 0; }

  // Chunks that leave at least one token of every sequence to the prompt.
  void MakeGeneration(int64_t longest, int64_t batch) {
    c_.cache = draw_.Pick(contract_.caches);
    for (int64_t left = draw_.Between(0, longest - 1); left > 0 && c_.chunks.size() < 5;) {
      c_.chunks.push_back(draw_.OneIn(3) ? draw_.Between(1, left) : 1);
      left -= c_.chunks.back();
    }
    if (!Has(kPartBeams) || (batch > 1 && draw_.OneIn(6))) return;
    for (size_t chunk = 0; chunk < c_.chunks.size(); ++chunk) {
      c_.parents.push_back(DrawSequence(draw_, batch, batch));
    }
  }

  void MakeTokens(int64_t longest, int64_t batch) {
    const int64_t tail = c_.tail();
    const bool ragged = c_.side != PaddingSide::kNone && !draw_.OneIn(6);
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t len = b == 0 || !ragged ? longest : draw_.Between(tail + 1, longest);
      c_.tokens.push_back(DrawSequence(draw_, len, contract_.vocab));
    }
    if (ragged) std::swap(c_.tokens.front(), c_.tokens[static_cast<size_t>(draw_.Below(batch))]);
    if (Has(kPartOthers)) c_.others = DrawOthers(draw_, c_.tokens, contract_.vocab);
    if (contract_.kind == ModelKind::kEncoderDecoder) MakeSources(batch);
  }

  void MakeSources(int64_t batch) {
    const int64_t longest = DrawLongest(draw_, size_, contract_.max_source_len);
    const bool ragged = c_.side != PaddingSide::kNone;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t len = b == 0 || !ragged ? longest : draw_.Between(1, longest);
      c_.sources.push_back(DrawSequence(draw_, len, contract_.vocab));
    }
    if (Has(kPartOthers)) c_.other_sources = DrawOthers(draw_, c_.sources, contract_.vocab);
  }

  void MakePadding() {
    c_.filler = draw_.Below(contract_.vocab);
    c_.other_filler = OtherThan(draw_, c_.filler, contract_.vocab);
    if (c_.side == PaddingSide::kNone || draw_.OneIn(2)) return;
    int64_t room = contract_.max_len - c_.len();
    for (const Sequence& source : c_.sources) {
      room = std::min(room, contract_.max_source_len - std::ssize(source));
    }
    c_.extra = draw_.Between(0, std::min<int64_t>(3, room));
  }

  void MakePositions() {
    const int64_t room = contract_.max_len - c_.len();
    if (room < 1) return;
    // Early ones too in long models: angles of late positions are rounded, and say less.
    for (int64_t b = 0; b < c_.batch(); ++b) {
      const bool early = room > kEarly && draw_.OneIn(2);
      c_.first_position.push_back(draw_.Between(1, early ? kEarly : room));
    }
  }

  // Tokens that are all different, so that each says where it is from.
  ModelCase MakeDocuments() {
    std::vector<int64_t> usable;
    for (int64_t token = 0; token < std::min<int64_t>(contract_.vocab, 256); ++token) {
      const auto& b = *contract_.batcher;
      if (token != b.pad && token != b.bos && token != b.eos) usable.push_back(token);
    }
    for (size_t i = usable.size(); i > 1; --i) {
      std::swap(usable[i - 1], usable[static_cast<size_t>(draw_.Below(static_cast<int64_t>(i)))]);
    }
    const int64_t most = std::min<int64_t>(std::ssize(usable), 4 + size_ / 3);
    for (int64_t used = 0; used < most && c_.documents.size() < 8;) {
      const int64_t len = draw_.Between(1, std::min<int64_t>(most - used, 7));
      c_.documents.emplace_back(usable.begin() + used, usable.begin() + used + len);
      used += len;
    }
    c_.row_len = draw_.Between(std::min<int64_t>(2, contract_.max_len),
                               std::min<int64_t>(12, contract_.max_len));
    c_.seed = draw_.Bits() >> 1;
    return std::move(c_);
  }

  Draw draw_;
  const int size_;
  const ModelContract& contract_;
  const uint32_t parts_;
  ModelCase c_;
};

int64_t Longest(const std::vector<Sequence>& all) {
  int64_t longest = 0;
  for (const Sequence& sequence : all) longest = std::max<int64_t>(longest, std::ssize(sequence));
  return longest;
}

bool HasOneLength(const std::vector<Sequence>& all) {
  return std::ranges::all_of(all, [&](const auto& s) { return s.size() == all[0].size(); });
}

std::string WhyNoTokens(const std::vector<Sequence>& all, std::string_view name, int64_t vocab) {
  for (const Sequence& sequence : all) {
    if (sequence.empty()) return fmt::format("{}: a sequence is empty", name);
    for (const int64_t token : sequence) {
      if (token < 0 || token >= vocab) {
        return fmt::format("{}: token {} is outside the vocabulary of {}", name, token, vocab);
      }
    }
  }
  return "";
}

std::string WhyUnlike(const std::vector<Sequence>& all, const std::vector<Sequence>& others,
                      std::string_view name) {
  if (others.empty()) return "";
  bool alike = others.size() == all.size();
  for (size_t b = 0; alike && b < all.size(); ++b) alike = all[b].size() == others[b].size();
  return alike ? "" : fmt::format("{}: is not of the shape of what it is to replace", name);
}

std::string WhyBadSizes(const ModelCase& c, const ModelContract& contract) {
  if (c.len() > contract.max_len) {
    return fmt::format("tokens: {} with their padding, but the model takes {}", c.len(),
                       contract.max_len);
  }
  const bool has_sources = contract.kind == ModelKind::kEncoderDecoder;
  if (c.sources.size() != (has_sources ? c.tokens.size() : 0)) {
    return has_sources ? "sources: one is needed for each item" : "sources: the model takes none";
  }
  if (has_sources && Longest(c.sources) + c.extra > contract.max_source_len) {
    return fmt::format("sources: longer than the {} that the model takes", contract.max_source_len);
  }
  if (c.side == PaddingSide::kNone) {
    const bool even = HasOneLength(c.tokens) && (!has_sources || HasOneLength(c.sources));
    return even && c.extra == 0 ? "" : "side: sequences of different lengths need padding";
  }
  const bool takes = std::ranges::find(contract.padding, c.side) != contract.padding.end();
  return takes ? "" : fmt::format("side: the model takes no padding on the {}", Name(c.side));
}

std::string WhyBadGeneration(const ModelCase& c, const ModelContract& contract) {
  if (c.cache.empty()) return c.chunks.empty() && c.parents.empty() ? "" : "cache: is missing";
  if (std::ranges::find(contract.caches, c.cache) == contract.caches.end()) {
    return fmt::format("cache: the model has no cache that is {}", c.cache);
  }
  for (const int64_t chunk : c.chunks) {
    if (chunk < 1) return "chunks: one is empty";
  }
  for (const Sequence& sequence : c.tokens) {
    if (std::ssize(sequence) <= c.tail()) return "chunks: they leave no token to the prompt";
  }
  if (c.parents.empty()) return "";
  if (c.parents.size() != c.chunks.size()) return "parents: one list is needed for each chunk";
  for (const auto& parents : c.parents) {
    const bool fine =
        std::ssize(parents) == c.batch() &&
        std::ranges::all_of(parents, [&](int64_t p) { return p >= 0 && p < c.batch(); });
    if (!fine) return "parents: a list needs one item of the batch for each";
  }
  return "";
}

std::string WhyBadRest(const ModelCase& c, const ModelContract& contract) {
  if (!c.first_position.empty()) {
    if (!contract.first_position) return "first_position: the model takes none";
    if (std::ssize(c.first_position) != c.batch())
      return "first_position: one is needed for each item";
    for (const int64_t first : c.first_position) {
      if (first < 0 || first + c.len() > contract.max_len) {
        return fmt::format("first_position: {} reaches beyond the {} that the model takes", first,
                           contract.max_len);
      }
    }
  }
  for (const int64_t filler : {c.filler, c.other_filler}) {
    if (filler < 0 || filler >= contract.vocab) return "filler: is outside the vocabulary";
  }
  if (c.documents.empty()) return "";
  if (!contract.batcher) return "documents: the model has no batcher";
  return c.row_len >= 1 && c.row_len <= contract.max_len
             ? ""
             : "row_len: is longer than the model takes";
}

}  // namespace

int64_t ModelCase::len() const {
  return Longest(tokens) + extra;
}

int64_t ModelCase::tail() const {
  return std::accumulate(chunks.begin(), chunks.end(), int64_t{0});
}

ModelCase DrawModelCase(uint64_t seed, int size, const ModelContract& contract, uint32_t parts) {
  return CaseDraw(seed, size, contract, parts).Make();
}

std::string WhyInvalid(const ModelCase& c, const ModelContract& contract) {
  if (c.tokens.empty() && c.documents.empty()) return "tokens: are missing";
  if (c.extra < 0) return "extra: is negative";
  const std::pair<const std::vector<Sequence>*, const char*> all[] = {
      {&c.tokens, "tokens"},
      {&c.others, "others"},
      {&c.sources, "sources"},
      {&c.other_sources, "other_sources"},
      {&c.documents, "documents"}};
  for (const auto& [sequences, name] : all) {
    if (std::string why = WhyNoTokens(*sequences, name, contract.vocab); !why.empty()) return why;
  }
  for (const std::string& why : {WhyUnlike(c.tokens, c.others, "others"),
                                 WhyUnlike(c.sources, c.other_sources, "other_sources"),
                                 c.tokens.empty() ? "" : WhyBadSizes(c, contract),
                                 WhyBadGeneration(c, contract), WhyBadRest(c, contract)}) {
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace attest
