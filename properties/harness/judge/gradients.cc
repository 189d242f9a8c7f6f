#include "properties/harness/judge/gradients.h"

#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "impl/attention/visibility.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/gradient_causes.h"
#include "properties/harness/judge/tally.h"

namespace attest {
namespace {

double ValueAt(const Array& array, const GradientIndex& i) {
  return array.At(i[0], i[1], i[2], i[3]);
}

// "rows 0, 2-3 of 5 see the key in query heads 2-3", or who does not.
std::string DescribeKey(const Problem& p, const GradientIndex& at) {
  const int64_t ratio = p.heads_per_kv_head(), first = at[1] * ratio;
  int64_t count = 0;
  std::string rows;
  for (int64_t h = first; h < first + ratio; ++h) {
    for (int64_t i = 0; i < p.q_len; ++i) {
      if (!Visible(p, {at[0], h, i}, at[2])) continue;
      if (++count <= 4) rows += fmt::format("{}{}.{}", rows.empty() ? "" : ", ", h, i);
    }
  }
  if (count == 0) return "no row sees the key";
  return fmt::format("the key is seen by {} of {} rows (head.query {}{})", count, ratio * p.q_len,
                     rows, count > 4 ? ", ..." : "");
}

std::string DescribeRow(const Problem& p, const GradientIndex& at) {
  const size_t keys = VisibleKeys(p, {at[0], at[1], at[2]}).size();
  return keys == 0 ? "the row sees no key"
                   : fmt::format("the row sees {} of {} keys", keys, p.kv_len);
}

// "3 of the 8 pairs that share it are visible".
std::string DescribePairs(const Problem& p, const GradientIndex& at) {
  int64_t visible = 0, pairs = 0;
  ForEachRow(p, [&](const Row& row) {
    if (!HasBiasElement(p, at, row, std::nullopt)) return;
    for (int64_t j = 0; j < p.kv_len; ++j) {
      if (!HasBiasElement(p, at, row, j)) continue;
      ++pairs;
      visible += Visible(p, row, j) ? 1 : 0;
    }
  });
  if (pairs == 1) return visible == 1 ? "its pair is visible" : "its pair is hidden";
  return fmt::format("{} of the {} pairs that share it are visible", visible, pairs);
}

std::string DescribeSharers(const Problem& p, const GradientOutput& output,
                            const GradientIndex& at) {
  switch (output.by) {
    case GradientBy::kRow:
      return DescribeRow(p, at);
    case GradientBy::kKey:
      return DescribeKey(p, at);
    case GradientBy::kBias:
      return DescribePairs(p, at);
    case GradientBy::kSink:
      return fmt::format("{} rows have the sink", p.batch * p.q_len);
  }
  return "";
}

// Nine digits tell any two values of f32 apart; in f64 it may take all. The sign of a NaN says nothing.
std::string Number(double value, double other) {
  if (std::isnan(value)) return "nan";
  const bool is_close = fmt::format("{:.9g}", value) == fmt::format("{:.9g}", other);
  return fmt::format("{:.{}g}", value, is_close ? 17 : 9);
}

// Whether the element belongs to rows that are padding, and to them alone.
bool IsOfPadding(const Problem& p, const GradientOutput& output, const GradientIndex& at) {
  if (!p.query_lengths) return false;
  if (output.by == GradientBy::kRow) return IsPaddedQuery(p, {at[0], at[1], at[2]});
  if (output.by != GradientBy::kBias) return false;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t i = 0; i < p.q_len; ++i) {
      const Row row{b, at[1], i};
      if (HasBiasElement(p, at, row, std::nullopt) && !IsPaddedQuery(p, row)) return false;
    }
  return true;
}

// The extents of an output, of which an outcome has all or nothing.
Shape4 ShapeOf(const Problem& p, const GradientOutput& output) {
  switch (output.by) {
    case GradientBy::kRow:
      return p.QShape();
    case GradientBy::kKey:
      return output.name == "dk" ? p.KShape() : p.VShape();
    case GradientBy::kBias:
      return p.bias ? p.bias->shape : Shape4{0, 0, 0, 0};
    case GradientBy::kSink:
      return p.sinks ? Shape4{1, p.q_heads, 1, 1} : Shape4{0, 0, 0, 0};
  }
  return {0, 0, 0, 0};
}

// Contracts may leave out dbias and dsink.
bool Has(const Evidence& evidence, size_t index, const GradientOutput& output) {
  const bool may_lack = output.by == GradientBy::kBias || output.by == GradientBy::kSink;
  return !may_lack || !(evidence.outcomes[index].*output.observed).empty();
}

// Counts a row, key or what is like them once, at its first lane.
void Count(const GradientIndex& index, bool is_open, Verdict& verdict) {
  if (index[3] != 0) return;
  ++verdict.rows;
  if (is_open) ++verdict.unconstrained_rows;
}

const GradientOutput& OutputNamed(std::string_view name) {
  for (const GradientOutput& output : kGradientOutputs) {
    if (output.name == name) return output;
  }
  return kGradientOutputs[0];
}

}  // namespace

void ForEachGradient(
    const Evidence& evidence, size_t index,
    const std::function<bool(const GradientOutput&, const GradientIndex&)>& visit) {
  const Problem& p = evidence.cases[index].problem;
  for (const GradientOutput& output : kGradientOutputs) {
    if (!Has(evidence, index, output)) continue;
    const Shape4 shape = ShapeOf(p, output);
    for (int64_t b = 0; b < shape[0]; ++b)
      for (int64_t h = 0; h < shape[1]; ++h)
        for (int64_t i = 0; i < shape[2]; ++i) {
          if (IsOfPadding(p, output, {b, h, i, 0})) continue;
          for (int64_t d = 0; d < shape[3]; ++d) {
            if (!visit(output, {b, h, i, d})) return;
          }
        }
  }
}

bool IsSeen(const Problem& p, int64_t batch, int64_t kv_head, int64_t key) {
  const int64_t ratio = p.heads_per_kv_head();
  for (int64_t h = kv_head * ratio; h < (kv_head + 1) * ratio; ++h) {
    for (int64_t i = 0; i < p.q_len; ++i) {
      if (!IsPaddedQuery(p, {batch, h, i}) && Visible(p, {batch, h, i}, key)) return true;
    }
  }
  return false;
}

bool HasBiasElement(const Problem& p, const GradientIndex& index, const Row& row,
                    std::optional<int64_t> key) {
  const GradientIndex own{row.batch, row.head, row.query, key.value_or(index[3])};
  for (size_t axis = 0; axis < own.size(); ++axis) {
    if (p.bias->shape[axis] != 1 && own[axis] != index[axis]) return false;
  }
  return true;
}

std::string DescribeGradient(const Problem& p, const GradientOutput& output,
                             const GradientIndex& i) {
  if (output.by == GradientBy::kSink) return fmt::format("{}[head {}]", output.name, i[1]);
  if (output.by != GradientBy::kBias) {
    const bool is_by_key = output.by == GradientBy::kKey;
    return fmt::format("{}[batch {}, {} {}, {} {}, lane {}]", output.name, i[0],
                       is_by_key ? "kv head" : "head", i[1], is_by_key ? "key" : "query", i[2],
                       i[3]);
  }
  constexpr std::string_view kAxes[] = {"batch", "head", "query", "key"};
  const Shape4 full = p.WeightsShape();
  std::string places;
  for (size_t axis = 0; axis < i.size(); ++axis) {
    const bool is_shared = p.bias->shape[axis] == 1 && full[axis] != 1;
    places += axis == 0 ? "" : ", ";
    places += is_shared ? fmt::format("every {}", kAxes[axis])
                        : fmt::format("{} {}", kAxes[axis], i[axis]);
  }
  return fmt::format("{}[{}]", output.name, places);
}

Verdict FailGradientAt(const Evidence& evidence, size_t call, const GradientOutput& output,
                       const GradientIndex& index, double expected, double observed, double bound,
                       std::string_view why, std::string_view due) {
  const Problem& p = evidence.cases[call].problem;
  Verdict v;
  v.kind = VerdictKind::kFail;
  v.cause = CauseOf(observed, expected);
  v.output = output.name;
  v.witness = Witness{index, expected, observed, bound};
  v.call = call;
  const std::string margin = bound > 0 ? fmt::format("give or take {:.3g}", bound) : "bit for bit";
  v.sentence = fmt::format("{} is {} where {} {}, {}; {}: {}", DescribeGradient(p, output, index),
                           Number(observed, expected), Number(expected, observed), due, margin,
                           DescribeSharers(p, output, index), why);
  return v;
}

void AddGradientCause(const Evidence& evidence, size_t index, Verdict& failed) {
  if (evidence.wants_cause && !evidence.wants_cause(failed)) return;
  const auto wanted = evidence.wants_every_cause ? CausesWanted::kEvery : CausesWanted::kBest;
  Explanation found = ExplainGradient(evidence, index, wanted);
  if (found.phrase.empty()) return;
  failed.sentence += "; " + found.phrase;
  failed.likely_cause = std::move(found.phrase);
  failed.cause_class = std::move(found.cause_class);
  failed.other_causes = std::move(found.others);
}

Verdict MatchesGradient(const Evidence& evidence, size_t index, std::string_view why) {
  const Outcome& outcome = evidence.outcomes[index];
  const Gradient& due = evidence.oracle.GradientOf(index);
  const Gradient& bounds = evidence.oracle.GradientBoundOf(index);
  Tally tally;
  ForEachGradient(evidence, index, [&](const GradientOutput& output, const GradientIndex& at) {
    const double bound = ValueAt(bounds.*output.due, at);
    Count(at, std::isinf(bound), tally.verdict);
    tally.See(output.name, at, ValueAt(due.*output.due, at), ValueAt(outcome.*output.observed, at),
              bound);
    return true;
  });
  if (!tally.failed()) return tally.verdict;
  const Witness& w = tally.witness;
  Verdict failed = FailGradientAt(evidence, index, OutputNamed(tally.output), w.index, w.expected,
                                  w.observed, w.bound, why);
  failed.rows = tally.verdict.rows;
  failed.worst_ratio = tally.verdict.worst_ratio;
  AddGradientCause(evidence, index, failed);
  return failed;
}

Verdict SameGradient(const Evidence& evidence, size_t a, size_t b, std::string_view why,
                     const GradientRelation& relation) {
  const Gradient &bounds_a = evidence.oracle.GradientBoundOf(a),
                 &bounds_b = evidence.oracle.GradientBoundOf(b);
  Tally tally;
  bool bits_differ = false;
  ForEachGradient(evidence, a, [&](const GradientOutput& output, const GradientIndex& at) {
    if (!Has(evidence, b, output)) return true;
    if (relation.filter && !relation.filter(output, at)) return true;
    const double bound =
        relation.factor * ValueAt(bounds_a.*output.due, at) + ValueAt(bounds_b.*output.due, at);
    Count(at, std::isinf(bound), tally.verdict);
    const double x = relation.factor * ValueAt(evidence.outcomes[a].*output.observed, at);
    const double y = ValueAt(evidence.outcomes[b].*output.observed, at);
    if (std::isinf(bound) || SameBits(x, y)) return true;
    bits_differ = true;
    tally.See(output.name, at, x, y, relation.exact ? 0 : bound);
    return true;
  });
  if (tally.failed()) {
    const Witness& w = tally.witness;
    Verdict failed = FailGradientAt(evidence, b, OutputNamed(tally.output), w.index, w.expected,
                                    w.observed, w.bound, why, "follows from another call");
    failed.rows = tally.verdict.rows;
    for (const size_t call : {b, a}) {
      if (failed.likely_cause.empty()) AddGradientCause(evidence, call, failed);
    }
    return failed;
  }
  if (bits_differ && relation.factor == 1) {
    tally.verdict.kind = VerdictKind::kMarginal;
    tally.verdict.reason = "bits";
  }
  return tally.verdict;
}

Verdict IsZeroGradient(const Evidence& evidence, size_t index, std::string_view why,
                       const GradientFilter& filter) {
  const Gradient& bounds = evidence.oracle.GradientBoundOf(index);
  Verdict verdict;
  ForEachGradient(evidence, index, [&](const GradientOutput& output, const GradientIndex& at) {
    if (!filter(output, at)) return true;
    const bool is_open = std::isinf(ValueAt(bounds.*output.due, at));
    Count(at, is_open, verdict);
    const double got = ValueAt(evidence.outcomes[index].*output.observed, at);
    if (is_open || got == 0) return true;
    const int64_t rows = verdict.rows;
    verdict = FailGradientAt(evidence, index, output, at, 0, got, 0, why);
    verdict.rows = rows;
    AddGradientCause(evidence, index, verdict);
    return false;
  });
  return verdict;
}

}  // namespace attest
