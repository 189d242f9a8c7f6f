#include "properties/harness/judge/explain/feature_faults.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "impl/reference/extended_reference.h"
#include "properties/harness/judge/explain/hypotheses.h"
#include "properties/harness/judge/explain/survey.h"

namespace attest {
namespace {

// 2^18 scores: the reference takes some ten milliseconds for them, and there are a dozen changes.
constexpr int64_t kMostScores = int64_t{1} << 18;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kLargestTile = 128;  // a power of two, as far as anyone knows
constexpr int kMostSplits = 16;

struct Change {
  std::string_view cause_class;
  std::string phrase;
  std::function<bool(const Problem&)> applies;
  std::function<void(Problem&, Inputs&, Semantics&)> make;
};

// Takes `member` out of the problem.
template <typename T>
Change Without(std::string_view cause_class, std::string phrase,
               std::optional<T> Problem::*member) {
  return {cause_class, std::move(phrase), [=](const Problem& p) { return (p.*member).has_value(); },
          [=](Problem& p, Inputs&, Semantics&) { (p.*member).reset(); }};
}

Change ScoresOf(ScoreMode mode, std::string phrase) {
  return {"scores-mode", std::move(phrase),
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

// The slopes that implementations make for themselves: 2^(-8 (h + 1) / heads); and, as the paper has it where heads are
// no power of two, those of the next lower one, then every other one of twice as many.
std::vector<double> OneRowOfSlopes(int64_t heads) {
  std::vector<double> slopes;
  for (int64_t h = 0; h < heads; ++h) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(heads)));
  }
  return slopes;
}

std::vector<double> SlopesOfThePaper(int64_t heads) {
  const auto lower = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes = OneRowOfSlopes(lower);
  const std::vector<double> finer = OneRowOfSlopes(2 * lower);
  for (size_t n = 0; std::ssize(slopes) < heads; n += 2) slopes.push_back(finer[n]);
  return slopes;
}

Change SlopesOf(std::string phrase, std::vector<double> (*slopes)(int64_t)) {
  return {"alibi-slopes", std::move(phrase),
          [=](const Problem& p) {
            return p.alibi_slopes && p.q_heads > 0 && *p.alibi_slopes != slopes(p.q_heads);
          },
          [=](Problem& p, Inputs&, Semantics&) { p.alibi_slopes = slopes(p.q_heads); }};
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
      SlopesOf("as if ALiBi had slopes of its own, 2^(-8 (h + 1) / q_heads)", OneRowOfSlopes),
      SlopesOf("as if ALiBi had slopes of its own, those of the paper", SlopesOfThePaper),
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

Change SlidDiagonal(int64_t by) {
  return {"diagonal-slid",
          fmt::format("as if the diagonal lay one key too {}", by > 0 ? "late" : "early"),
          [](const Problem& p) { return p.causal; },
          [by](Problem& p, Inputs&, Semantics&) {
            p.diagonal_offset.resize(static_cast<size_t>(p.batch), 0);
            for (int64_t& offset : p.diagonal_offset) offset += by;
          }};
}

// What rules of single rows find in a plain softmax, and find no more beside a softcap, a sink or
// dropout, or in scores.
std::vector<Change> OlderFeatures() {
  return {
      {"row-zero", "as if with a head_dim of 0 the row saw no key",
       [](const Problem& p) { return p.head_dim == 0; },
       [](Problem& p, Inputs&, Semantics&) {
         p.key_lengths = std::vector<int64_t>(static_cast<size_t>(p.batch), 0);
       }},
      {"causal-ignored", "as if the causal flag were ignored",
       [](const Problem& p) { return p.causal; },
       [](Problem& p, Inputs&, Semantics&) { p.causal = false; }},
      {"window-ignored", "as if the window were ignored",
       [](const Problem& p) { return p.window.active(); },
       [](Problem& p, Inputs&, Semantics&) { p.window = {}; }},
      {"diagonal-top-left", "as if the diagonal started at the top left",
       [](const Problem& p) { return !p.diagonal_offset.empty(); },
       [](Problem& p, Inputs&, Semantics&) { p.diagonal_offset.clear(); }},
      SlidDiagonal(1),
      SlidDiagonal(-1),
      Without("lengths-ignored", "as if the key lengths were ignored", &Problem::key_lengths),
      Without("mask-ignored", "as if the mask were ignored", &Problem::mask),
      Without("bias-ignored", "as if the additive mask were ignored", &Problem::bias),
  };
}

Change WindowEnd(std::string_view cause_class, std::string_view name,
                 std::optional<int64_t> Window::*side, int64_t by) {
  return {cause_class,
          fmt::format("as if the window held one key {} at its {} end", by > 0 ? "more" : "fewer",
                      name),
          [side](const Problem& p) { return (p.window.*side).has_value(); },
          [side, by](Problem& p, Inputs&, Semantics&) { *(p.window.*side) += by; }};
}

Change LengthsOff(int64_t by) {
  return {"lengths-off-by-one",
          fmt::format("as if key lengths were one {}", by > 0 ? "more" : "fewer"),
          [](const Problem& p) { return p.key_lengths.has_value(); },
          [by](Problem& p, Inputs&, Semantics&) {
            for (int64_t& length : *p.key_lengths) {
              length = std::clamp<int64_t>(length + by, 0, p.kv_len);
            }
          }};
}

// What rules of rows know of what is seen, for scores, which they say nothing of. What is hidden shows in them alone.
std::vector<Change> WhatIsSeenOfScores() {
  return {WindowEnd("window-left-end", "left", &Window::left, 1),
          WindowEnd("window-left-end", "left", &Window::left, -1),
          WindowEnd("window-right-end", "right", &Window::right, 1),
          WindowEnd("window-right-end", "right", &Window::right, -1),
          LengthsOff(1),
          LengthsOff(-1),
          {"mask-inverted", "as if the mask meant the opposite",
           [](const Problem& p) { return p.mask.has_value(); },
           [](Problem& p, Inputs&, Semantics&) {
             for (auto& bit : p.mask->bits) bit = bit == 0 ? 1 : 0;
           }}};
}

// The products over the leading multiple of a tile of the head dimension alone.
std::vector<Change> HeadDimTails(const Problem& problem) {
  std::vector<Change> changes;
  for (int64_t tile = 2; tile <= 64 && tile < problem.head_dim; tile *= 2) {
    const int64_t dims = problem.head_dim / tile * tile;
    if (dims == problem.head_dim) continue;
    changes.push_back({"head-dim-tail",
                       fmt::format("as if q and k ended with the last full {} of head_dim", tile),
                       [](const Problem&) { return true; },
                       [dims](Problem& p, Inputs& inputs, Semantics&) {
                         for (size_t n = 0; n < inputs.q.values.size(); ++n) {
                           if (static_cast<int64_t>(n) % p.head_dim >= dims) inputs.q.values[n] = 0;
                         }
                       }});
  }
  return changes;
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
  const Mismatch changed{p, inputs, reference, bound, m.outcome, contract, m.storage};
  const auto holds = [&](const Row& row) { return RowHolds(changed, row, bound); };
  const auto is_evidence = [&](const Row& row) { return RowIsJudged(changed, row) && holds(row); };
  return std::all_of(wrong.begin(), wrong.end(), is_evidence) &&
         std::all_of(right.begin(), right.end(), holds);
}

std::vector<Change> Scales() {
  const auto is = [](std::string phrase, double (*scale)(const Problem&)) {
    return Change{"scale", std::move(phrase),
                  [=](const Problem& p) { return scale(p) != p.EffectiveScale(); },
                  [=](Problem& p, Inputs&, Semantics&) { p.scale = scale(p); }};
  };
  return {is("as if the scale were left out", [](const Problem&) { return 1.0; }),
          is("as if the scale were applied twice",
             [](const Problem& p) { return p.EffectiveScale() * p.EffectiveScale(); })};
}

void Append(std::vector<Change> more, std::vector<Change>& changes) {
  for (Change& change : more) changes.push_back(std::move(change));
}

double LogOfSum(double a, double b) {
  const double high = std::max(a, b);
  return std::isinf(high) ? high : high + std::log1p(std::exp(std::min(a, b) - high));
}

// What one more term of value zero does to a row is what a sink does: its score is the sink's.
void AddSink(Problem& p, double score) {
  if (!p.sinks) p.sinks = std::vector<double>(static_cast<size_t>(p.q_heads), -kInf);
  for (double& sink : *p.sinks) sink = LogOfSum(sink, score);
}

// Whether terms of value zero, whose exponentials sum to exp(score), bring the row near what was observed. Spares
// computing the reference anew for what is far off.
bool IsNearWithSink(const Mismatch& m, const Row& row, double score) {
  const double lse = m.reference.lse.At(row.batch, row.head, row.query, 0);
  const double with = LogOfSum(lse, score);
  const auto is_near = [](double a, double b, double size) {
    return a == b || std::abs(a - b) <= 0.01 * std::max(1.0, size);
  };
  if (!m.outcome.lse.empty()) {
    return is_near(m.outcome.lse.At(row.batch, row.head, row.query, 0), with, std::abs(with));
  }
  for (int64_t d = 0; d < m.outcome.out.shape[3]; ++d) {
    const double out = m.reference.out.At(row.batch, row.head, row.query, d);
    const double observed = m.outcome.out.At(row.batch, row.head, row.query, d);
    if (!is_near(observed, out * std::exp(lse - with), std::abs(out))) return false;
  }
  return true;
}

// The last tile filled up with keys of value 0, whose score is 0 or, hidden by -inf before the softcap, the least that
// a softcap leaves.
std::vector<Change> PaddedTiles(const Mismatch& m, const Row& row) {
  const Problem& p = m.problem;
  std::vector<Change> changes;
  const auto add = [&](int64_t tile, int64_t keys, double score, std::string_view what) {
    const double sum = score + std::log(static_cast<double>(keys));
    if (!IsNearWithSink(m, row, sum)) return;
    changes.push_back({"padded-keys-attended",
                       fmt::format("as if the last tile of {} were filled up with {} key{} of {} "
                                   "and value 0",
                                   tile, keys, keys == 1 ? "" : "s", what),
                       [](const Problem&) { return true; },
                       [sum](Problem& q, Inputs&, Semantics&) { AddSink(q, sum); }});
  };
  int64_t last = 0;
  for (int64_t tile = 2; tile <= kLargestTile; tile *= 2) {
    const int64_t keys = (tile - p.kv_len % tile) % tile;
    if (keys == last) continue;
    last = keys;
    if (p.softcap > 0) add(tile, keys, -p.softcap, "the least score that the softcap leaves");
    add(tile, keys, 0, "score 0");
  }
  return changes;
}

// Sinks counted once a split, however many there are.
std::vector<Change> RepeatedSinks(const Mismatch& m, const Row& row) {
  std::vector<Change> changes;
  if (!m.problem.sinks) return changes;
  const double sink = (*m.problem.sinks)[static_cast<size_t>(row.head)];
  for (int times = 2; times <= kMostSplits; ++times) {
    if (!IsNearWithSink(m, row, sink + std::log(times - 1.0))) continue;
    changes.push_back({"sinks-repeated",
                       fmt::format("as if each sink were counted {} times", times),
                       [](const Problem&) { return true; },
                       [times](Problem& q, Inputs&, Semantics&) {
                         for (double& one : *q.sinks) one += std::log(static_cast<double>(times));
                       }});
  }
  return changes;
}

// The factor between what came out and what was due, as one element suggests; the others are the evidence, without
// which there is none.
std::vector<Change> DropoutScales(const Mismatch& m, const std::vector<Row>& wrong) {
  double expected = 0, observed = 0;
  int elements = 0;
  for (const Row& row : wrong) {
    for (int64_t d = 0; d < m.problem.value_dim && !m.outcome.out.empty(); ++d) {
      const double due = m.reference.out.At(row.batch, row.head, row.query, d);
      if (due == 0 || !std::isfinite(due)) continue;
      ++elements;
      if (std::abs(due) <= std::abs(expected)) continue;
      expected = due;
      observed = m.outcome.out.At(row.batch, row.head, row.query, d);
    }
  }
  const double factor = observed / expected;
  // Between the value of the only key and out stands nothing but dropout's factor.
  const bool sees_one_key = !m.problem.sinks && CountVisibleKeys(m.problem, wrong.front()) == 1;
  if (!m.problem.dropout || (elements < 2 && !sees_one_key) || !(factor > 0) ||
      !std::isfinite(factor))
    return {};
  const double right = 1 / (1 - m.problem.dropout->probability);
  return {{"dropout-scale",
           fmt::format("as if dropout multiplied what it keeps by {:.6g} and not by {:.6g}",
                       factor * right, right),
           [](const Problem&) { return true; },
           [scale = factor * right](Problem& p, Inputs&, Semantics&) {
             p.dropout->probability = 1 - 1 / scale;
           }}};
}

double Capped(double score, double cap) {
  return cap * std::tanh(score / cap);
}

// What a row that sees one key says of the softcap: its score before and after it.
struct CappedScore {
  double before = 0, after = 0;
};

// Of the row, where the one key that it sees has its score to itself: no sink, and an lse.
std::optional<CappedScore> CappedScoreOf(const Mismatch& m, const Row& row) {
  const Scene scene(m, false);
  const RowRule rule = scene.TrueRule(row);
  if (m.problem.sinks || m.outcome.lse.empty() || rule.terms.size() != 1) return std::nullopt;
  const double bias = rule.terms.front().bias;
  const double score = ScoresOf(scene.context(), rule, rule.terms).front();
  const double observed = m.outcome.lse.At(row.batch, row.head, row.query, 0);
  if (m.contract.semantics.softcap_order == SoftcapOrder::kAfterBias) return {{score, observed}};
  return {{score - bias, observed - bias}};
}

// The cap that makes `after` of `before`, to two digits; nullopt where none does.
std::optional<double> FitSoftcap(const CappedScore& score) {
  const double target = std::abs(score.after), whole = std::abs(score.before);
  if (!(score.before * score.after > 0) || !(target < whole) || !std::isfinite(whole)) {
    return std::nullopt;
  }
  double low = target * 0.5, high = target * 1e4;
  for (int step = 0; step < 100; ++step) {
    const double middle = std::sqrt(low * high);
    (Capped(whole, middle) < target ? low : high) = middle;
  }
  const double unit = std::pow(10, std::floor(std::log10(high)) - 1);
  return std::round(high / unit) * unit;
}

// Softcaps of two digits, as models have them: the one that a row suggests. One number for one equation would be no
// evidence, but so round a one is.
std::vector<Change> OtherSoftcaps(const Mismatch& m, const std::vector<Row>& wrong) {
  std::vector<Change> changes;
  if (m.problem.softcap == 0) return changes;
  for (const Row& row : wrong) {
    const auto score = CappedScoreOf(m, row);
    const auto cap = score ? FitSoftcap(*score) : std::nullopt;
    if (!cap || *cap == m.problem.softcap) continue;
    changes.push_back(
        {"softcap-value",
         fmt::format("as if the softcap were {:.6g} and not {:.6g}", *cap, m.problem.softcap),
         [](const Problem&) { return true; },
         [cap = *cap](Problem& p, Inputs&, Semantics&) { p.softcap = cap; }});
    break;
  }
  return changes;
}

// Changes by a number that the rows suggest. They come last: a number that is free explains more than a word.
std::vector<Change> FittedChanges(const Mismatch& m, const std::vector<Row>& wrong) {
  if (wrong.empty()) return {};
  std::vector<Change> changes = PaddedTiles(m, wrong.front());
  Append(RepeatedSinks(m, wrong.front()), changes);
  Append(OtherSoftcaps(m, wrong), changes);
  Append(DropoutScales(m, wrong), changes);
  return changes;
}

// The first of the changes that gives the rows, or every one.
std::vector<Explanation> ThoseThatGive(const Mismatch& m, const std::vector<Change>& changes,
                                       const std::vector<Row>& wrong, const std::vector<Row>& right,
                                       CausesWanted wanted) {
  std::vector<Explanation> found;
  if (ElementCount(m.problem.WeightsShape()) > kMostScores) return found;
  for (const Change& change : changes) {
    if (!change.applies(m.problem) || !Gives(m, change, wrong, right)) continue;
    found.push_back({std::string(change.cause_class), change.phrase});
    if (wanted == CausesWanted::kBest) break;
  }
  return found;
}

}  // namespace

std::vector<Explanation> FeatureFaults(const Mismatch& m, const std::vector<Row>& wrong,
                                       const std::vector<Row>& right, CausesWanted wanted) {
  std::vector<Change> changes = NewerFeatures();
  Append(OtherModes(), changes);
  Append(MisreadFeatures(), changes);
  if (!HasPlainSoftmax(m.problem)) {
    Append(OlderFeatures(), changes);
    Append(HeadDimTails(m.problem), changes);
    Append(FittedChanges(m, wrong), changes);
  }
  return ThoseThatGive(m, changes, wrong, right, wanted);
}

std::vector<Explanation> ScoresFaults(const Mismatch& m, const std::vector<Row>& wrong,
                                      const std::vector<Row>& right, CausesWanted wanted) {
  Outcome scores;
  scores.status = m.outcome.status;
  scores.scores = m.outcome.scores;
  const Mismatch alone{m.problem, m.inputs, m.reference, m.bound, scores, m.contract, m.storage};
  std::vector<Change> changes = OtherModes();
  Append(NewerFeatures(), changes);
  Append(MisreadFeatures(), changes);
  Append(OlderFeatures(), changes);
  Append(Scales(), changes);
  Append(WhatIsSeenOfScores(), changes);
  return ThoseThatGive(alone, changes, wrong, right, wanted);
}

}  // namespace attest
