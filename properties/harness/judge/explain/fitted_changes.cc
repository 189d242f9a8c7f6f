// Changes whose number one row suggests; the other rows are the evidence for it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "properties/harness/judge/explain/feature_changes.h"
#include "properties/harness/judge/explain/hypotheses.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kLargestTile = 128;  // a power of two, as far as anyone knows
constexpr int kMostSplits = 16;

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
FeatureChanges PaddedTiles(const Mismatch& m, const Row& row) {
  const Problem& p = m.problem;
  FeatureChanges changes;
  const auto add = [&](int64_t tile, int64_t keys, double score, std::string_view what) {
    const double sum = score + std::log(static_cast<double>(keys));
    if (!IsNearWithSink(m, row, sum)) return;
    changes.push_back({"padded-keys-attended",
                       fmt::format("the last tile of {} were filled up with {} key{} of {} "
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
FeatureChanges RepeatedSinks(const Mismatch& m, const Row& row) {
  FeatureChanges changes;
  if (!m.problem.sinks) return changes;
  const double sink = (*m.problem.sinks)[static_cast<size_t>(row.head)];
  for (int times = 2; times <= kMostSplits; ++times) {
    if (!IsNearWithSink(m, row, sink + std::log(times - 1.0))) continue;
    changes.push_back({"sinks-repeated", fmt::format("each sink were counted {} times", times),
                       [](const Problem&) { return true; },
                       [times](Problem& q, Inputs&, Semantics&) {
                         for (double& one : *q.sinks) one += std::log(static_cast<double>(times));
                       }});
  }
  return changes;
}

// The factor between what came out and what was due, as one element suggests; the others are the evidence, without
// which there is none.
FeatureChanges DropoutScales(const Mismatch& m, const std::vector<Row>& wrong) {
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
           fmt::format("dropout multiplied what it keeps by {:.6g} and not by {:.6g}",
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
FeatureChanges OtherSoftcaps(const Mismatch& m, const std::vector<Row>& wrong) {
  FeatureChanges changes;
  if (m.problem.softcap == 0) return changes;
  for (const Row& row : wrong) {
    const auto score = CappedScoreOf(m, row);
    const auto cap = score ? FitSoftcap(*score) : std::nullopt;
    if (!cap || *cap == m.problem.softcap) continue;
    changes.push_back(
        {"softcap-value",
         fmt::format("the softcap were {:.6g} and not {:.6g}", *cap, m.problem.softcap),
         [](const Problem&) { return true; },
         [cap = *cap](Problem& p, Inputs&, Semantics&) { p.softcap = cap; }});
    break;
  }
  return changes;
}

}  // namespace

FeatureChanges FittedChanges(const Mismatch& m, const std::vector<Row>& wrong) {
  if (wrong.empty()) return {};
  FeatureChanges changes = PaddedTiles(m, wrong.front());
  Append(RepeatedSinks(m, wrong.front()), changes);
  Append(OtherSoftcaps(m, wrong), changes);
  Append(DropoutScales(m, wrong), changes);
  return changes;
}

}  // namespace attest
