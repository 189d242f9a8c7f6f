// What the logits at a position depend on: nothing that comes later, all that comes before, all of a source.
// Each token of a tiny sequence is changed by itself, and what moves is looked at.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/model/compare_logits.h"
#include "properties/transformer/model_properties.h"
#include "properties/transformer/name_cause.h"

namespace attest {
namespace {

// By position, then by token: whether one depends on the other.
using Matrix = std::vector<std::vector<bool>>;

// The call as it is, then one call for each token of `which` (tokens or sources) changed.
std::vector<ModelRequest> ChangedOneByOne(const ModelCase& c, bool in_source) {
  std::vector<ModelRequest> requests{AtOnce(c)};
  const auto& others = in_source ? c.other_sources : c.others;
  for (size_t s = 0; s < others[0].size(); ++s) {
    requests.push_back(AtOnce(c));
    auto& changed = in_source ? requests.back().sources : requests.back().tokens;
    changed[0][s] = others[0][s];
  }
  return requests;
}

// Which logits move in any bit.
Matrix MovedBy(const std::vector<ModelAnswer>& answers, size_t len) {
  Matrix moved(len, std::vector<bool>(answers.size() - 1));
  for (size_t t = 0; t < len; ++t) {
    for (size_t s = 0; s + 1 < answers.size(); ++s) {
      moved[t][s] = !SameLogits(answers[0].At(0, t), answers[s + 1].At(0, t));
    }
  }
  return moved;
}

Matrix Intended(const ModelContract& contract, size_t len) {
  Matrix intended(len, std::vector<bool>(len));
  for (size_t t = 0; t < len; ++t) {
    for (size_t s = 0; s < len; ++s) {
      intended[t][s] = MayDepend(contract, static_cast<int64_t>(t), static_cast<int64_t>(s));
    }
  }
  return intended;
}

std::string NeedsHidden(const ModelContract& contract, bool) {
  const bool sees_all = contract.kind == ModelKind::kEncoder && contract.reach == 0;
  return sees_all ? "an encoder sees every token" : "";
}

std::string NeedsDecoder(const ModelContract& contract, bool) {
  return contract.kind == ModelKind::kEncoder ? "an encoder sees every token" : "";
}

std::string NeedsSource(const ModelContract& contract, bool) {
  return contract.kind == ModelKind::kEncoderDecoder ? "" : "the model has no source";
}

std::string Always(const ModelContract&, bool) {
  return "";
}

// What a matrix with forbidden dependencies looks like: the class and a phrase.
std::pair<std::string, std::string> ShapeOf(const Matrix& moved, int64_t reach) {
  const auto len = static_cast<int64_t>(moved.size());
  bool earlier = false, all = true;
  int64_t beyond = 0, behind = 0;  // how far after and before itself a position sees at most
  for (int64_t t = 0; t < len; ++t) {
    for (int64_t s = 0; s < len; ++s) {
      const bool depends = moved[static_cast<size_t>(t)][static_cast<size_t>(s)];
      earlier |= s < t && depends;
      all &= depends;
      if (depends) beyond = std::max(beyond, s - t);
      if (depends) behind = std::max(behind, t - s);
    }
  }
  if (!earlier) return {"triangle-transposed", "as if the causal mask were transposed"};
  if (all) return {"no-causal-mask", "as if there were no causal mask"};
  if (beyond + 1 >= len) return {};
  const auto tokens = [](int64_t n) { return fmt::format("{} token{}", n, n == 1 ? "" : "s"); };
  if (beyond == 0) {
    if (reach == 0 || behind < reach) return {};
    return {"window-too-wide",
            fmt::format("as if the window reached {} too far back, over all layers",
                        tokens(behind - reach + 1))};
  }
  return {"diagonal-slid",
          fmt::format("as if the diagonal lay {} too far, over all layers", tokens(beyond))};
}

// Of two tokens nothing can be told: the case is made longer before its shape is looked at.
ModelCase LongEnough(ModelCase c, const ModelLab& lab) {
  constexpr int64_t kEnough = 6;
  const int64_t vocab = lab.contract().vocab;
  while (c.len() < std::min(kEnough, lab.contract().max_len)) {
    const int64_t token = (3 * c.len() + 1) % vocab;
    c.tokens[0].push_back(token);
    c.others[0].push_back((token + 1) % vocab);
  }
  return c;
}

void Explain(const ModelCase& failing, ModelLab& lab, Verdict& verdict) {
  if (!lab.wants_cause() || NameUnstable(AtOnce(failing), lab, verdict)) return;
  const ModelCase c = LongEnough(failing, lab);
  const auto answers = lab.Run(ChangedOneByOne(c, /*in_source=*/false));
  if (!answers) return;
  auto [cause_class, phrase] = ShapeOf(MovedBy(*answers, c.tokens[0].size()), lab.contract().reach);
  if (!cause_class.empty()) SetCause(std::move(cause_class), std::move(phrase), verdict);
}

// What a matrix that lacks dependencies looks like. A model of short sight need but say so.
void ExplainDeafness(const ModelCase& failing, ModelLab& lab, Verdict& verdict) {
  if (!lab.wants_cause()) return;
  const ModelCase c = LongEnough(failing, lab);
  const auto answers = lab.Run(ChangedOneByOne(c, /*in_source=*/false));
  if (!answers) return;
  const auto len = static_cast<int64_t>(c.tokens[0].size());
  const Matrix moved = MovedBy(*answers, c.tokens[0].size());
  const auto is_shape = [&](const std::function<bool(int64_t, int64_t)>& depends) {
    for (int64_t t = 0; t < len; ++t) {
      for (int64_t s = 0; s < len; ++s) {
        if (moved[static_cast<size_t>(t)][static_cast<size_t>(s)] != depends(t, s)) return false;
      }
    }
    return true;
  };
  const bool is_encoder = lab.contract().kind == ModelKind::kEncoder;
  if (is_encoder && is_shape([](int64_t t, int64_t s) { return s <= t; })) {
    return SetCause("causal-in-an-encoder", "as if the encoder were causal", verdict);
  }
  for (int64_t reach = 1; reach + 1 < len; ++reach) {
    ModelContract declared = lab.contract();
    declared.reach = reach;
    if (!is_shape([&](int64_t t, int64_t s) { return MayDepend(declared, t, s); })) continue;
    return SetCause(
        "short-reach",
        fmt::format("as if {} were all that a token sees: where that is meant, "
                    "\"reach\": {} in the contract says so",
                    reach == 1 ? "it itself" : fmt::format("it and {} before", reach - 1), reach),
        verdict);
  }
}

// The law of a language model: what it says of the next token it says without knowing it. A token that is
// hidden takes no part in any sum, so that not one bit may move where bits are promised.
Verdict LaterTokensDoNotMatter(const ModelCase& c, ModelLab& lab) {
  const size_t len = c.tokens[0].size();
  if (len < 2) return SaysNothing("a single token has none behind it");
  const auto answers = lab.Run(ChangedOneByOne(c, /*in_source=*/false));
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), lab.contract().bits.future);
  for (size_t s = 0; s < len; ++s) {
    for (size_t t = 0; t < len; ++t) {
      if (MayDepend(lab.contract(), static_cast<int64_t>(t), static_cast<int64_t>(s))) continue;
      comparison.Row(answers->at(0).At(0, t), answers->at(s + 1).At(0, t), 0, t,
                     fmt::format("the token at position {}{} has become {} instead of {}", s,
                                 s < t ? ", out of reach," : "", c.others[0][s], c.tokens[0][s]));
    }
  }
  if (comparison.has_failed()) Explain(c, lab, comparison.verdict());
  return comparison.Finish();
}

// A sequence that ends earlier is what a longer one is up to there.
Verdict PrefixesSayTheSame(const ModelCase& c, ModelLab& lab) {
  const size_t len = c.tokens[0].size();
  if (len < 2) return SaysNothing("a single token has no shorter prefix");
  std::vector<ModelRequest> requests{AtOnce(c)};
  for (size_t end = 1; end < len; ++end) {
    requests.push_back(AtOnce(c));
    requests.back().tokens[0].resize(end);
  }
  const auto answers = lab.Run(requests);
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(),
                              lab.contract().bits.future && lab.contract().bits.padding);
  for (size_t end = 1; end < len; ++end) {
    for (size_t t = 0; t < end; ++t) {
      comparison.Row(answers->at(end).At(0, t), answers->at(0).At(0, t), 0, t,
                     fmt::format("due is what the first {} tokens give by themselves", end));
    }
  }
  return comparison.Finish();
}

// Calls that may show a dependency which one change does not: what is not seen in any of several
// surroundings, whatever a token is changed to, is not there.
class DeafnessTrial {
 public:
  DeafnessTrial(const ModelCase& c, ModelLab& lab, bool in_source, size_t s)
      : c_(c), lab_(lab), in_source_(in_source), s_(s) {}

  // Clears `deaf[t]` where the logits at t depend on the token.
  std::optional<Verdict> Run(std::vector<bool>& deaf) {
    constexpr int kSurroundings = 4;
    Draw draw(MixIn(c_.seed, s_));
    for (int i = 0; i < kSurroundings && std::ranges::count(deaf, true) > 0; ++i) {
      const auto requests = Alternatives(i == 0 ? c_ : Redrawn(draw), draw);
      const auto answers = lab_.Run(requests);
      if (!answers) return answers.error();
      const Matrix moved = MovedBy(*answers, deaf.size());
      for (size_t t = 0; t < deaf.size(); ++t) {
        if (std::ranges::count(moved[t], true) > 0) deaf[t] = false;
      }
    }
    return std::nullopt;
  }

 private:
  ModelCase Redrawn(Draw& draw) const {
    ModelCase other = c_;
    for (auto* all : {&other.tokens, &other.sources}) {
      for (Sequence& sequence : *all) {
        for (int64_t& token : sequence) token = draw.Below(lab_.contract().vocab);
      }
    }
    return other;
  }

  std::vector<ModelRequest> Alternatives(const ModelCase& c, Draw& draw) const {
    constexpr int64_t kMost = 8;
    const int64_t vocab = lab_.contract().vocab;
    std::vector<ModelRequest> requests{AtOnce(c)};
    const int64_t own = (in_source_ ? c.sources : c.tokens)[0][s_];
    for (int64_t i = 1; i <= std::min(kMost, vocab - 1); ++i) {
      requests.push_back(AtOnce(c));
      auto& all = in_source_ ? requests.back().sources : requests.back().tokens;
      const int64_t step = vocab - 1 <= kMost ? i : draw.Between(1, vocab - 1);
      all[0][s_] = (own + step) % vocab;
    }
    return requests;
  }

  const ModelCase& c_;
  ModelLab& lab_;
  const bool in_source_;
  const size_t s_;
};

// Every dependency that is intended is there; `intended` by position, then by token.
Verdict NothingIsDeaf(const ModelCase& c, ModelLab& lab, bool in_source, const Matrix& intended) {
  const size_t len = c.tokens[0].size();
  const auto answers = lab.Run(ChangedOneByOne(c, in_source));
  if (!answers) return answers.error();
  const Matrix moved = MovedBy(*answers, len);
  Verdict verdict;
  for (size_t s = 0; s < intended[0].size(); ++s) {
    std::vector<bool> deaf(len);
    for (size_t t = 0; t < len; ++t) deaf[t] = intended[t][s] && !moved[t][s];
    if (std::ranges::count(deaf, true) == 0) continue;
    if (auto failed = DeafnessTrial(c, lab, in_source, s).Run(deaf)) return *failed;
    const auto first = std::ranges::find(deaf, true);
    if (first == deaf.end()) continue;
    verdict = ModelFailure(
        Cause::kValue, "logits",
        fmt::format(
            "{} do not depend on the {} at position {}: it was changed to {} others, among other "
            "tokens as well, and not one bit moved",
            RowName(0, static_cast<size_t>(first - deaf.begin())),
            in_source ? "source's token" : "token", s,
            std::min<int64_t>(8, lab.contract().vocab - 1)));
    break;
  }
  verdict.rows = static_cast<int64_t>(len);
  return verdict;
}

Verdict EveryEarlierTokenMatters(const ModelCase& c, ModelLab& lab) {
  Verdict verdict =
      NothingIsDeaf(c, lab, /*in_source=*/false, Intended(lab.contract(), c.tokens[0].size()));
  if (verdict.kind == VerdictKind::kFail && verdict.output == "logits") {
    ExplainDeafness(c, lab, verdict);
  }
  return verdict;
}

Verdict EverySourceTokenMatters(const ModelCase& c, ModelLab& lab) {
  const Matrix all(c.tokens[0].size(), std::vector<bool>(c.sources[0].size(), true));
  return NothingIsDeaf(c, lab, /*in_source=*/true, all);
}

std::string LineOf(const std::vector<bool>& row) {
  std::string line;
  for (const bool depends : row) line += depends ? '#' : '.';
  return line;
}

constexpr ModelProperty kProperties[] = {
    {"no_future.later_tokens_do_not_matter",
     "Changing a token changes no logit before it, nor one that it is out of reach of.",
     "a decoder, or a reach", kPartOthers, NeedsHidden, LaterTokensDoNotMatter, DependencyPicture},
    {"no_future.prefixes_say_the_same",
     "The first tokens of a sequence have the logits that they have by themselves.", "a decoder",
     kPartOthers, NeedsDecoder, PrefixesSayTheSame},
    {"dependency.every_earlier_token_matters",
     "The logits depend on every token that they may depend on.", "", kPartOthers, Always,
     EveryEarlierTokenMatters, DependencyPicture},
    {"dependency.every_source_token_matters",
     "The logits at every token depend on all of the source.", "an encoder_decoder", kPartOthers,
     NeedsSource, EverySourceTokenMatters},
};

}  // namespace

std::span<const ModelProperty> DependencyProperties() {
  return kProperties;
}

std::string DependencyPicture(const ModelCase& c, ModelLab& lab) {
  const auto answers = lab.Run(ChangedOneByOne(c, /*in_source=*/false));
  if (!answers) return "";
  const size_t len = c.tokens[0].size();
  const Matrix observed = MovedBy(*answers, len), intended = Intended(lab.contract(), len);
  std::string text = fmt::format("{:<{}}  intended\n", "observed", std::max<size_t>(len, 8));
  for (size_t t = 0; t < len; ++t) {
    text += fmt::format("{:<{}}  {}\n", LineOf(observed[t]), std::max<size_t>(len, 8),
                        LineOf(intended[t]));
  }
  return text +
         "a line a position, a column a token: # the logits there move with it, . they do not;\n"
         "observed: of this model; intended: as its contract says\n";
}

}  // namespace attest
