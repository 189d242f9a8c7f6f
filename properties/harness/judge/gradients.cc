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

// Nine digits tell any two values of f32 apart; in f64 it may take all. The sign of a NaN says nothing.
std::string Number(double value, double other) {
  if (std::isnan(value)) return "nan";
  const bool is_close = fmt::format("{:.9g}", value) == fmt::format("{:.9g}", other);
  return fmt::format("{:.{}g}", value, is_close ? 17 : 9);
}

// Counts a row or key once, at its first lane.
void Count(const GradientIndex& index, bool is_open, Verdict& verdict) {
  if (index[3] != 0) return;
  ++verdict.rows;
  if (is_open) ++verdict.unconstrained_rows;
}

void AddCause(const Evidence& evidence, size_t index, Verdict& failed) {
  if (evidence.wants_cause && !evidence.wants_cause(failed)) return;
  Explanation found = ExplainGradient(evidence, index);
  if (found.phrase.empty()) return;
  failed.sentence += "; " + found.phrase;
  failed.likely_cause = std::move(found.phrase);
  failed.cause_class = std::move(found.cause_class);
}

const GradientOutput& OutputNamed(std::string_view name) {
  for (const GradientOutput& output : kGradientOutputs) {
    if (output.name == name) return output;
  }
  return kGradientOutputs[0];
}

}  // namespace

void ForEachGradient(
    const Problem& p,
    const std::function<bool(const GradientOutput&, const GradientIndex&)>& visit) {
  for (const GradientOutput& output : kGradientOutputs) {
    const Shape4 shape = !output.is_by_key     ? p.QShape()
                         : output.name == "dk" ? p.KShape()
                                               : p.VShape();
    for (int64_t b = 0; b < shape[0]; ++b)
      for (int64_t h = 0; h < shape[1]; ++h)
        for (int64_t i = 0; i < shape[2]; ++i) {
          if (!output.is_by_key && IsPaddedQuery(p, {b, h, i})) continue;
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

std::string DescribeGradient(const GradientOutput& output, const GradientIndex& i) {
  return fmt::format("{}[batch {}, {} {}, {} {}, lane {}]", output.name, i[0],
                     output.is_by_key ? "kv head" : "head", i[1],
                     output.is_by_key ? "key" : "query", i[2], i[3]);
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
  v.sentence = fmt::format("{} is {} where {} {}, {}; {}: {}", DescribeGradient(output, index),
                           Number(observed, expected), Number(expected, observed), due, margin,
                           output.is_by_key ? DescribeKey(p, index) : DescribeRow(p, index), why);
  return v;
}

Verdict MatchesGradient(const Evidence& evidence, size_t index, std::string_view why) {
  const Outcome& outcome = evidence.outcomes[index];
  const Gradient& due = evidence.oracle.GradientOf(index);
  const Gradient& bounds = evidence.oracle.GradientBoundOf(index);
  Tally tally;
  ForEachGradient(evidence.cases[index].problem,
                  [&](const GradientOutput& output, const GradientIndex& at) {
                    const double bound = ValueAt(bounds.*output.due, at);
                    Count(at, std::isinf(bound), tally.verdict);
                    tally.See(output.name, at, ValueAt(due.*output.due, at),
                              ValueAt(outcome.*output.observed, at), bound);
                    return true;
                  });
  if (!tally.failed()) return tally.verdict;
  const Witness& w = tally.witness;
  Verdict failed = FailGradientAt(evidence, index, OutputNamed(tally.output), w.index, w.expected,
                                  w.observed, w.bound, why);
  failed.rows = tally.verdict.rows;
  failed.worst_ratio = tally.verdict.worst_ratio;
  AddCause(evidence, index, failed);
  return failed;
}

Verdict SameGradient(const Evidence& evidence, size_t a, size_t b, std::string_view why,
                     const GradientRelation& relation) {
  const Gradient &bounds_a = evidence.oracle.GradientBoundOf(a),
                 &bounds_b = evidence.oracle.GradientBoundOf(b);
  Tally tally;
  bool bits_differ = false;
  ForEachGradient(
      evidence.cases[a].problem, [&](const GradientOutput& output, const GradientIndex& at) {
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
  ForEachGradient(evidence.cases[index].problem,
                  [&](const GradientOutput& output, const GradientIndex& at) {
                    if (!filter(output, at)) return true;
                    const bool is_open = std::isinf(ValueAt(bounds.*output.due, at));
                    Count(at, is_open, verdict);
                    const double got = ValueAt(evidence.outcomes[index].*output.observed, at);
                    if (is_open || got == 0) return true;
                    const int64_t rows = verdict.rows;
                    verdict = FailGradientAt(evidence, index, output, at, 0, got, 0, why);
                    verdict.rows = rows;
                    return false;
                  });
  return verdict;
}

}  // namespace attest
