// Padding: a batch of sequences of different lengths says of each what it says of it alone, whichever side the
// padding is on and whatever it holds. Sources of an encoder_decoder are padded with their targets.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/model/compare_logits.h"
#include "properties/transformer/model_properties.h"
#include "properties/transformer/name_cause.h"

namespace attest {
namespace {

std::string NeedsPadding(const ModelContract& contract, bool) {
  return contract.padding.empty() ? "sequences of different lengths are not taken" : "";
}

std::string NeedsBothSides(const ModelContract& contract, bool) {
  return contract.padding.size() < 2 ? "padding comes on one side alone" : "";
}

bool HasPadding(const ModelCase& c) {
  if (c.side == PaddingSide::kNone) return false;
  const auto is_ragged = [](const std::vector<Sequence>& all) {
    return std::ranges::any_of(all, [&](const auto& s) { return s.size() != all[0].size(); });
  };
  return c.extra > 0 || is_ragged(c.tokens) || is_ragged(c.sources);
}

ModelRequest Alone(const ModelCase& c, size_t b) {
  ModelRequest request;
  request.tokens = {c.tokens[b]};
  if (!c.sources.empty()) request.sources = {c.sources[b]};
  return request;
}

void CompareAll(const ModelCase& c, const ModelAnswer& expected, const ModelAnswer& observed,
                const std::string& what, LogitsComparison& comparison) {
  for (size_t b = 0; b < c.tokens.size(); ++b) {
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      comparison.Row(expected.At(b, i), observed.At(b, i), b, i, what);
    }
  }
}

// Whether the item alone, but with the padding counted in its positions, gives what the batch gave.
bool CountsPadding(const ModelCase& c, size_t b, const ModelAnswer& batch, ModelLab& lab) {
  if (!lab.contract().first_position || c.side != PaddingSide::kLeft) return false;
  ModelRequest request = Alone(c, b);
  request.first_position = {c.len() - std::ssize(c.tokens[b])};
  const auto answer = lab.Run(request);
  if (!answer || request.first_position[0] == 0) return false;
  for (size_t i = 0; i < c.tokens[b].size(); ++i) {
    const auto due = answer->At(0, i), seen = batch.At(b, i);
    for (size_t v = 0; v < due.size(); ++v) {
      // Of NaN nothing can be said.
      const double most = RoundingOf(due, seen, lab.contract().Precision());
      if (!(std::abs(due[v] - seen[v]) <= most)) return false;
    }
  }
  return true;
}

void Explain(const ModelCase& c, const ModelAnswer& batch, ModelLab& lab, Verdict& verdict) {
  if (verdict.kind != VerdictKind::kFail || !lab.wants_cause()) return;
  if (!CountsPadding(c, static_cast<size_t>(verdict.witness->index[0]), batch, lab)) {
    return NameCause(c, AtOnce, lab, verdict);
  }
  SetCause("positions-count-padding",
           "as if positions were counted from the beginning of the padding", verdict);
}

// The one claim that matters in serving: who shares the batch, and how long they are, is nobody's business.
Verdict BatchEqualsAlone(const ModelCase& c, ModelLab& lab) {
  if (!HasPadding(c)) return SaysNothing("nothing is padded");
  std::vector<ModelRequest> requests{AtOnce(c)};
  for (size_t b = 0; b < c.tokens.size(); ++b) requests.push_back(Alone(c, b));
  const auto answers = lab.Run(requests);
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(),
                              lab.contract().bits.padding && lab.contract().bits.batch);
  for (size_t b = 0; b < c.tokens.size(); ++b) {
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      comparison.Row((*answers)[b + 1].At(0, i), (*answers)[0].At(b, i), b, i,
                     fmt::format("due is what the sequence gives alone, without padding on the {}",
                                 Name(c.side)));
    }
  }
  Explain(c, (*answers)[0], lab, comparison.verdict());
  return comparison.Finish();
}

// Padding takes no part in anything, so that not one bit may move where bits are promised.
Verdict ContentDoesNotMatter(const ModelCase& c, ModelLab& lab) {
  if (!HasPadding(c)) return SaysNothing("nothing is padded");
  ModelRequest changed = AtOnce(c);
  changed.filler = c.other_filler;
  const auto answers = lab.Run(std::vector{AtOnce(c), changed});
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), lab.contract().bits.padding_content);
  CompareAll(c, (*answers)[0], (*answers)[1],
             fmt::format("the padding on the {} holds {} instead of {}", Name(c.side),
                         c.other_filler, c.filler),
             comparison);
  return comparison.Finish();
}

Verdict SidesAgree(const ModelCase& c, ModelLab& lab) {
  if (!HasPadding(c)) return SaysNothing("nothing is padded");
  ModelRequest left = AtOnce(c), right = AtOnce(c);
  left.side = PaddingSide::kLeft;
  right.side = PaddingSide::kRight;
  const auto answers = lab.Run(std::vector{right, left});
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), lab.contract().bits.padding);
  CompareAll(c, (*answers)[0], (*answers)[1],
             "padded on the left; due is what it gives padded on the right", comparison);
  for (const PaddingSide side : {PaddingSide::kLeft, PaddingSide::kRight}) {
    ModelCase sided = c;
    sided.side = side;
    if (comparison.verdict().cause_class.empty()) {
      NameCause(sided, AtOnce, lab, comparison.verdict());
    }
  }
  return comparison.Finish();
}

constexpr ModelProperty kProperties[] = {
    {"padding.batch_equals_alone",
     "A sequence in a padded batch has the logits that it has alone, positions included.",
     "padding", kPartBatch, NeedsPadding, BatchEqualsAlone},
    {"padding.content_does_not_matter", "What padding holds changes no logit.", "padding",
     kPartBatch, NeedsPadding, ContentDoesNotMatter},
    {"padding.sides_agree", "Padding on the left and on the right give the same logits.",
     "padding on both sides", kPartBatch, NeedsBothSides, SidesAgree},
};

}  // namespace

std::span<const ModelProperty> ModelPaddingProperties() {
  return kProperties;
}

}  // namespace attest
