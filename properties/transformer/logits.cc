// What comes out at all: finite logits, the same ones each time, and those of another model where one is named.
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/model/compare_logits.h"
#include "properties/transformer/model_properties.h"
#include "properties/transformer/name_cause.h"

namespace attest {
namespace {

std::string Always(const ModelContract&, bool) {
  return "";
}

std::string NeedsOther(const ModelContract&, bool has_other) {
  return has_other ? "" : "no model to compare with: name one with --against";
}

// The first logit that is no number; nullopt where all are.
std::optional<Verdict> FirstNotFinite(const ModelAnswer& answer, std::string_view how) {
  for (size_t b = 0; b < answer.logits.size(); ++b) {
    for (size_t at = 0; at < answer.logits[b].size(); ++at) {
      const double value = answer.logits[b][at];
      if (std::isfinite(value)) continue;
      const auto vocab = static_cast<size_t>(answer.vocab);
      return ModelFailure(std::isnan(value) ? Cause::kNan : Cause::kInf, "logits",
                          fmt::format("{} hold {} for token {}{}", RowName(b, at / vocab),
                                      std::isnan(value) ? "NaN" : "an infinity", at % vocab, how));
    }
  }
  return std::nullopt;
}

// A row without a visible key, an overflow in the head: all that follows is lost.
Verdict AreFinite(const ModelCase& c, ModelLab& lab) {
  std::vector<ModelRequest> requests{AtOnce(c)};
  if (!c.cache.empty()) requests.push_back(Generated(c));
  const auto answers = lab.Run(requests);
  if (!answers) return answers.error();
  for (size_t i = 0; i < answers->size(); ++i) {
    const char* how = i == 0 ? "" : ", generated with a cache";
    if (auto verdict = FirstNotFinite((*answers)[i], how)) return *verdict;
  }
  return {};
}

// Whatever was asked in between, and however often: nothing is drawn at random, nothing is kept.
Verdict RerunsAreTheSame(const ModelCase& c, ModelLab& lab) {
  ModelCase between = c;
  between.tokens = c.others;
  if (!c.sources.empty()) between.sources = c.other_sources;
  const auto answers = lab.Run(std::vector{AtOnce(c), AtOnce(between), AtOnce(c)});
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), lab.contract().bits.rerun);
  for (size_t b = 0; b < c.tokens.size(); ++b) {
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      comparison.Row((*answers)[0].At(b, i), (*answers)[2].At(b, i), b, i,
                     "the same call was made before, and another in between");
    }
  }
  Verdict& verdict = comparison.verdict();
  if (comparison.has_failed() && lab.wants_cause() && !NameUnstable(AtOnce(c), lab, verdict)) {
    SetCause("request-before", "as if a request began with what one before it has left", verdict);
  }
  return comparison.Finish();
}

// Where two models of the same weights part, from the row of the witness: at one token, at the same token again and again, or
// where tokens differ. `coarser` is the one of the two whose roundings decide.
void NameParting(const ModelCase& c, ModelLab& lab, const ModelLab& coarser, Verdict& verdict) {
  const auto b = static_cast<size_t>(verdict.witness->index[0]);
  const auto i = static_cast<size_t>(verdict.witness->index[2]);
  const auto part_at = [&](size_t times) {
    ModelRequest request;
    request.tokens = {Sequence(times, c.tokens[b][i])};
    if (!c.sources.empty()) request.sources = {c.sources[b]};
    const auto own = lab.Run(request), theirs = lab.other()->Run(request);
    if (!own || !theirs) return false;
    for (size_t n = 0; n < times; ++n) {
      if (IsApart(theirs->At(0, n), own->At(0, n), coarser)) return true;
    }
    return false;
  };
  if (part_at(1)) {
    return SetCause(
        "differs-at-one-token",
        "of one token alone it differs, too: look at what comes before or behind attention "
        "(embedding, norms, feed-forward, output), or at its values",
        verdict);
  }
  if (i > 0 && part_at(i + 1)) {
    return SetCause("differs-at-equal-tokens",
                    "of one token alone it is right, of the same one repeated it is not: look at "
                    "positions, and at what keys are added up",
                    verdict);
  }
  if (i > 0) {
    SetCause(
        "differs-in-weights",
        "of the same token repeated it is right: keys are weighed otherwise (scale, mask, heads "
        "of queries, positions or their rotation)",
        verdict);
  }
}

// Two models of the same weights: one of them the model before it was rewritten, ported, sped up. They never
// round alike, so that the coarser of the two formats decides.
Verdict MatchesTheOther(const ModelCase& c, ModelLab& lab) {
  const ModelContract& other = lab.other()->contract();
  if (!WhyInvalid(c, other).empty()) return SaysNothing("the other model does not take it");
  if (other.vocab != lab.contract().vocab) {
    return ModelFailure(Cause::kValue, "logits",
                        fmt::format("the vocabulary has {} tokens, that of the other model {}",
                                    lab.contract().vocab, other.vocab));
  }
  const auto own = lab.Run(AtOnce(c));
  if (!own) return own.error();
  const auto theirs = lab.other()->Run(AtOnce(c));
  if (!theirs) return SaysNothing("the other model gives no logits: " + theirs.error().sentence);
  const bool coarser =
      TraitsOf(other.dtype).unit_roundoff > TraitsOf(lab.contract().dtype).unit_roundoff;
  LogitsComparison comparison(coarser ? other : lab.contract(), /*promised=*/false);
  for (size_t b = 0; b < c.tokens.size(); ++b) {
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      comparison.Row(theirs->At(b, i), own->At(b, i), b, i, "due is what the other model says");
    }
  }
  if (comparison.has_failed() && lab.wants_cause()) {
    NameParting(c, lab, coarser ? *lab.other() : lab, comparison.verdict());
  }
  return comparison.Finish();
}

constexpr ModelProperty kProperties[] = {
    // First of all, so that one rerun is of the first call that the model's process gets.
    {"logits.reruns_are_the_same",
     "The same call gives the same logits, whatever was asked in between: nothing is dropped out.",
     "", kPartBatch | kPartOthers, Always, RerunsAreTheSame},
    {"logits.are_finite", "Every logit is a number, at once and with a cache.", "",
     kPartBatch | kPartChunks, Always, AreFinite},
    {"logits.match_the_other_model",
     "The logits are those of the model named by --against, but for roundings.", "--against",
     kPartBatch, NeedsOther, MatchesTheOther},
};

}  // namespace

std::span<const ModelProperty> LogitsProperties() {
  return kProperties;
}

}  // namespace attest
