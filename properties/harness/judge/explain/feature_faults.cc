#include "properties/harness/judge/explain/feature_faults.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "impl/reference/extended_reference.h"
#include "properties/harness/judge/explain/hypotheses.h"
#include "properties/harness/judge/explain/survey.h"

namespace attest {
namespace {

// 2^18 scores: the reference takes some ten milliseconds for them, and there are a dozen changes.
constexpr int64_t kMostScores = int64_t{1} << 18;

struct Change {
  std::string_view cause_class;
  std::string_view phrase;
  std::function<bool(const Problem&)> applies;
  std::function<void(Problem&, Inputs&, Semantics&)> make;
};

// Takes `member` out of the problem.
template <typename T>
Change Without(std::string_view cause_class, std::string_view phrase,
               std::optional<T> Problem::*member) {
  return {cause_class, phrase, [=](const Problem& p) { return (p.*member).has_value(); },
          [=](Problem& p, Inputs&, Semantics&) { (p.*member).reset(); }};
}

Change ScoresOf(ScoreMode mode, std::string_view phrase) {
  return {"scores-mode", phrase,
          [=](const Problem& p) { return p.want_scores && p.want_scores != mode; },
          [=](Problem& p, Inputs&, Semantics&) { p.want_scores = mode; }};
}

std::vector<Change> NewerFeatures() {
  return {
      {"softcap-ignored", "as if the softcap were ignored",
       [](const Problem& p) { return p.softcap > 0; },
       [](Problem& p, Inputs&, Semantics&) { p.softcap = 0; }},
      {"softcap-order", "as if the softcap came at the other side of the bias",
       [](const Problem& p) { return p.softcap > 0 && (p.bias || p.alibi_slopes); },
       [](Problem&, Inputs&, Semantics& s) {
         s.softcap_order = s.softcap_order == SoftcapOrder::kBeforeBias ? SoftcapOrder::kAfterBias
                                                                        : SoftcapOrder::kBeforeBias;
       }},
      Without("sinks-ignored", "as if the sinks were ignored", &Problem::sinks),
      Without("alibi-ignored", "as if ALiBi were ignored", &Problem::alibi_slopes),
      Without("dropout-ignored", "as if dropout were ignored", &Problem::dropout),
      {"dropout-unscaled", "as if dropout did not scale what it keeps",
       [](const Problem& p) { return p.dropout && p.dropout->probability > 0; },
       [](Problem& p, Inputs&, Semantics&) { p.dropout->probability = 0; }},
      Without("documents-ignored", "as if the documents were ignored", &Problem::documents),
      Without("blocks-ignored", "as if the block mask were ignored", &Problem::block_mask),
      {"prefix-ignored", "as if the prefix lengths were ignored",
       [](const Problem& p) { return p.causal && p.prefix_lengths; },
       [](Problem& p, Inputs&, Semantics&) { p.prefix_lengths.reset(); }},
  };
}

std::vector<Change> OtherModes() {
  return {
      ScoresOf(ScoreMode::kRaw, "as if the raw scores were asked for"),
      ScoresOf(ScoreMode::kCapped, "as if the scores after the softcap were asked for"),
      ScoresOf(ScoreMode::kBiased, "as if the scores after bias and hiding were asked for"),
      ScoresOf(ScoreMode::kWeights, "as if the weights were asked for as scores"),
  };
}

// ALiBi as an additive mask whose distances start at the top left.
void AnchorAlibiTopLeft(Problem& p, Inputs& inputs, Semantics&) {
  Problem top_left = p;
  top_left.diagonal_offset.clear();
  const Array before = inputs.bias;
  BitPlane plane{p.WeightsShape(), 4, {}};
  inputs.bias = Array(plane.shape);
  ForEachRow(p, [&](const Row& row) {
    for (int64_t j = 0; j < p.kv_len; ++j) {
      plane.bits.push_back(!p.bias || p.bias->At(row.batch, row.head, row.query, j) ? 1 : 0);
      inputs.bias.At(row.batch, row.head, row.query, j) =
          top_left.Alibi(row.batch, row.head, row.query, j) +
          (p.bias ? before.Broadcast(row.batch, row.head, row.query, j) : 0);
    }
  });
  p.bias = std::move(plane);
  p.alibi_slopes.reset();
}

// The mask that dropout is, before the softmax.
void DropBefore(Problem& p, Inputs&, Semantics&) {
  BitPlane both = p.dropout->keep;
  if (p.mask) {
    size_t flat = 0;
    ForEachRow(p, [&](const Row& row) {
      for (int64_t j = 0; j < p.kv_len; ++j, ++flat) {
        if (!p.mask->At(row.batch, row.head, row.query, j)) both.bits[flat] = 0;
      }
    });
  }
  p.mask = std::move(both);
  p.dropout.reset();
}

// The first `count` values for all.
template <typename T>
void RepeatFirst(std::vector<T>& values, int64_t count) {
  for (size_t n = static_cast<size_t>(count); n < values.size(); ++n) {
    values[n] = values[n - static_cast<size_t>(count)];
  }
}

// The plane of the first index along `axis`, broadcast.
void KeepFirst(BitPlane& plane, size_t axis) {
  Shape4 shape = plane.shape;
  shape[axis] = 1;
  BitPlane first{shape, plane.rank, {}};
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t j = 0; j < shape[3]; ++j) first.bits.push_back(plane.At(b, h, i, j) ? 1 : 0);
  plane = std::move(first);
}

std::vector<Change> MisreadFeatures() {
  return {
      {"alibi-anchor", "as if ALiBi measured from the top left, whatever the diagonal's offset",
       [](const Problem& p) { return p.alibi_slopes && !p.diagonal_offset.empty(); },
       AnchorAlibiTopLeft},
      {"dropout-order", "as if keys were dropped before the softmax and not after it",
       [](const Problem& p) { return p.dropout.has_value(); }, DropBefore},
      {"head-0-for-all", "as if the ALiBi slope of head 0 were used for all",
       [](const Problem& p) { return p.alibi_slopes.has_value(); },
       [](Problem& p, Inputs&, Semantics&) { RepeatFirst(*p.alibi_slopes, 1); }},
      {"head-0-for-all", "as if the sink of head 0 were used for all",
       [](const Problem& p) { return p.sinks.has_value(); },
       [](Problem& p, Inputs&, Semantics&) { RepeatFirst(*p.sinks, 1); }},
      {"head-0-for-all", "as if the block mask of head 0 were used for all",
       [](const Problem& p) { return p.block_mask && p.block_mask->plane.shape[1] > 1; },
       [](Problem& p, Inputs&, Semantics&) { KeepFirst(p.block_mask->plane, 1); }},
      {"batch-0-for-all", "as if the block mask of batch item 0 were used for all",
       [](const Problem& p) { return p.block_mask && p.block_mask->plane.shape[0] > 1; },
       [](Problem& p, Inputs&, Semantics&) { KeepFirst(p.block_mask->plane, 0); }},
      {"batch-0-for-all", "as if the documents of batch item 0 were used for all",
       [](const Problem& p) { return p.documents && p.batch > 1; },
       [](Problem& p, Inputs&, Semantics&) {
         RepeatFirst(p.documents->query, p.q_len);
         RepeatFirst(p.documents->key, p.kv_len);
       }},
      {"batch-0-for-all", "as if the prefix length of batch item 0 were used for all",
       [](const Problem& p) { return p.prefix_lengths && p.batch > 1; },
       [](Problem& p, Inputs&, Semantics&) { RepeatFirst(*p.prefix_lengths, 1); }},
  };
}

// What rules of single rows find in a plain softmax, and find no more beside a softcap, a sink or
// dropout, or in scores.
std::vector<Change> OlderFeatures() {
  return {
      {"causal-ignored", "as if the causal flag were ignored",
       [](const Problem& p) { return p.causal; },
       [](Problem& p, Inputs&, Semantics&) { p.causal = false; }},
      {"window-ignored", "as if the window were ignored",
       [](const Problem& p) { return p.window.active(); },
       [](Problem& p, Inputs&, Semantics&) { p.window = {}; }},
      {"diagonal-top-left", "as if the diagonal started at the top left",
       [](const Problem& p) { return !p.diagonal_offset.empty(); },
       [](Problem& p, Inputs&, Semantics&) { p.diagonal_offset.clear(); }},
      Without("lengths-ignored", "as if the key lengths were ignored", &Problem::key_lengths),
      Without("mask-ignored", "as if the mask were ignored", &Problem::mask),
      Without("bias-ignored", "as if the additive mask were ignored", &Problem::bias),
  };
}

// Whether the outcome is what a right kernel makes of the changed problem, in the rows given.
bool Gives(const Mismatch& m, const Change& change, const std::vector<Row>& wrong,
           const std::vector<Row>& right) {
  Problem p = m.problem;
  Contract contract = m.contract;
  Inputs inputs = m.inputs;
  change.make(p, inputs, contract.semantics);
  if (!p.bias) inputs.bias = {};
  const Reference reference = ReferenceFor(p, inputs, contract);
  ErrorBound bound(p, inputs, reference, contract);
  const Mismatch changed{p, inputs, reference, bound, m.outcome, contract, m.is_packed};
  const auto holds = [&](const Row& row) { return RowHolds(changed, row, bound); };
  const auto is_evidence = [&](const Row& row) { return RowIsJudged(changed, row) && holds(row); };
  return std::all_of(wrong.begin(), wrong.end(), is_evidence) &&
         std::all_of(right.begin(), right.end(), holds);
}

std::vector<Change> Scales() {
  const auto is = [](std::string_view phrase, double (*scale)(const Problem&)) {
    return Change{"scale", phrase, [=](const Problem& p) { return scale(p) != p.EffectiveScale(); },
                  [=](Problem& p, Inputs&, Semantics&) { p.scale = scale(p); }};
  };
  return {is("as if the scale were left out", [](const Problem&) { return 1.0; }),
          is("as if the scale were applied twice",
             [](const Problem& p) { return p.EffectiveScale() * p.EffectiveScale(); })};
}

void Append(std::vector<Change> more, std::vector<Change>& changes) {
  for (Change& change : more) changes.push_back(std::move(change));
}

Explanation FirstThatGives(const Mismatch& m, const std::vector<Change>& changes,
                           const std::vector<Row>& wrong, const std::vector<Row>& right) {
  if (ElementCount(m.problem.WeightsShape()) > kMostScores) return {};
  for (const Change& change : changes) {
    if (!change.applies(m.problem) || !Gives(m, change, wrong, right)) continue;
    return {std::string(change.cause_class), std::string(change.phrase)};
  }
  return {};
}

}  // namespace

Explanation FeatureFault(const Mismatch& m, const std::vector<Row>& wrong,
                         const std::vector<Row>& right) {
  std::vector<Change> changes = NewerFeatures();
  Append(OtherModes(), changes);
  Append(MisreadFeatures(), changes);
  if (!HasPlainSoftmax(m.problem)) Append(OlderFeatures(), changes);
  return FirstThatGives(m, changes, wrong, right);
}

Explanation ScoresFault(const Mismatch& m, const std::vector<Row>& wrong,
                        const std::vector<Row>& right) {
  Outcome scores;
  scores.status = m.outcome.status;
  scores.scores = m.outcome.scores;
  const Mismatch alone{m.problem, m.inputs, m.reference, m.bound, scores, m.contract, m.is_packed};
  std::vector<Change> changes = OtherModes();
  Append(NewerFeatures(), changes);
  Append(MisreadFeatures(), changes);
  Append(OlderFeatures(), changes);
  Append(Scales(), changes);
  return FirstThatGives(alone, changes, wrong, right);
}

}  // namespace attest
