#include "properties/harness/judge/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/judge/outputs.h"
#include "properties/harness/judge/tally.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Index = std::array<int64_t, 4>;

// "keys 0-2, 4 of 5"
std::string DescribeVisibleKeys(const Problem& p, const Row& row) {
  const std::vector<int64_t> keys = VisibleKeys(p, row);
  if (keys.empty()) return fmt::format("no key of {}", p.kv_len);
  std::string text = keys.size() == 1 ? "key " : "keys ";
  size_t shown = 0;
  for (size_t n = 0; n < keys.size() && shown < 6; ++shown) {
    size_t last = n;
    while (last + 1 < keys.size() && keys[last + 1] == keys[last] + 1) ++last;
    if (n > 0) text += ", ";
    text += last == n ? fmt::format("{}", keys[n]) : fmt::format("{}-{}", keys[n], keys[last]);
    n = last + 1;
    if (shown == 5 && n < keys.size()) text += ", ...";
  }
  return fmt::format("{} of {}", text, p.kv_len);
}

// What the row's place means to the problem: " (document 3, prefix 2, tiles of 2 x 4, padding)".
std::string DescribePlace(const Problem& p, const Row& row) {
  std::vector<std::string> facts;
  const auto item = static_cast<size_t>(row.batch);
  if (p.documents) {
    const auto at = static_cast<size_t>(row.batch * p.q_len + row.query);
    facts.push_back(fmt::format("document {}", p.documents->query[at]));
  }
  if (p.causal && p.prefix_lengths) {
    facts.push_back(fmt::format("prefix {}", (*p.prefix_lengths)[item]));
  }
  if (p.block_mask) {
    facts.push_back(fmt::format("tiles of {} x {}", p.block_mask->block_q, p.block_mask->block_k));
  }
  if (IsPaddedQuery(p, row)) {
    facts.push_back(fmt::format("padding: query length {}", (*p.query_lengths)[item]));
  }
  return facts.empty() ? "" : fmt::format(" ({})", fmt::join(facts, ", "));
}

// The sign of a NaN says nothing.
std::string Number(double value, int digits) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}g}", value, digits);
}

// Nine digits tell any two values of f32 apart; in f64 it may take all.
int DigitsToTellApart(double a, double b) {
  return Number(a, 9) == Number(b, 9) ? 17 : 9;
}

}  // namespace

std::string DescribeElement(std::string_view output, const Index& i) {
  const std::string row = fmt::format("{}[batch {}, head {}, query {}", output, i[0], i[1], i[2]);
  if (output == "lse") return row + "]";
  return fmt::format("{}, {} {}]", row, output == "weights" || output == "scores" ? "key" : "lane",
                     i[3]);
}

double Ratio(double observed, double expected, double bound) {
  if (WithinBound(observed, expected, bound)) {
    const double error = std::abs(observed - expected);
    return bound > 0 && std::isfinite(bound) && error > 0 ? error / bound : 0;
  }
  const double error = std::abs(observed - expected);
  return std::isfinite(error) && bound > 0 ? error / bound : kInf;
}

void Tally::See(std::string_view name, const Index& index, double expected, double observed,
                double bound) {
  const double ratio = Ratio(observed, expected, bound);
  verdict.worst_ratio = std::max(verdict.worst_ratio, ratio);
  if (ratio <= 1 || ratio <= worst) return;
  worst = ratio;
  output = name;
  witness = {index, expected, observed, bound};
}

std::optional<double> PromisedOut(EmptyRow what) {
  if (what == EmptyRow::kZero) return 0.0;
  if (what == EmptyRow::kNan) return kNaN;
  return std::nullopt;
}

std::optional<double> PromisedLse(LseEmptyRow what) {
  switch (what) {
    case LseEmptyRow::kMinusInf:
      return -kInf;
    case LseEmptyRow::kPlusInf:
      return kInf;
    case LseEmptyRow::kNan:
      return kNaN;
    default:
      return std::nullopt;
  }
}

bool IsSettledRow(const Outcome& outcome, const Reference& reference, ErrorBound& bound,
                  const Row& row) {
  const RowFloor floor = bound.FloorOf(row);
  for (const Output& output : kOutputs) {
    const Array& observed = outcome.*output.observed;
    if (observed.empty()) continue;
    const size_t first = observed.Index(row.batch, row.head, row.query, 0);
    for (int64_t lane = 0; lane < observed.shape[3]; ++lane) {
      const size_t at = first + static_cast<size_t>(lane);
      const double x = observed.values[at], y = (reference.*output.expected).values[at];
      if (SameBits(x, y)) continue;
      // The difference may be NaN, which settles nothing.
      if (!(std::abs(x - y) <= output.settled(floor, y))) return false;
    }
  }
  return true;
}

void Explain(const Evidence& evidence, size_t index, const Index& at, Verdict& verdict) {
  if (evidence.wants_cause && !evidence.wants_cause(verdict)) return;
  const Mismatch mismatch{evidence.cases[index].problem,      evidence.oracle.InputsOf(index),
                          evidence.oracle.ReferenceOf(index), evidence.oracle.BoundOf(index),
                          evidence.outcomes[index],           evidence.contract,
                          evidence.cases[index].storage};
  const Row row{at[0], at[1], at[2]};
  const auto wanted = evidence.wants_every_cause ? CausesWanted::kEvery : CausesWanted::kBest;
  Explanation found = ExplainMismatch(mismatch, row, verdict.output, wanted);
  if (found.phrase.empty()) return;
  verdict.sentence += "; " + found.phrase;
  verdict.likely_cause = std::move(found.phrase);
  verdict.cause_class = std::move(found.cause_class);
  verdict.other_causes = std::move(found.others);
}

bool SameBits(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool WithinBound(double observed, double expected, double bound) {
  if (bound == kInf || SameBits(observed, expected)) return true;
  return std::abs(observed - expected) <= bound;  // false for NaN and for unlike infinities
}

bool IsUnconstrained(const Evidence& evidence, size_t index, const Row& row) {
  return evidence.oracle.BoundOf(index).IsUnconstrained(row);
}

Cause CauseOf(double observed, double expected) {
  if (std::isnan(observed) && !std::isnan(expected)) return Cause::kNan;
  if (std::isinf(observed) && !std::isinf(expected)) return Cause::kInf;
  return Cause::kValue;
}

Verdict Pass(int64_t rows) {
  Verdict v;
  v.rows = rows;
  return v;
}

Verdict FailAt(const Problem& p, std::string_view output, const Index& index, double expected,
               double observed, double bound, std::string_view why, std::string_view due) {
  Verdict v;
  v.kind = VerdictKind::kFail;
  v.cause = CauseOf(observed, expected);
  v.output = output;
  v.witness = Witness{index, expected, observed, bound};
  const std::string margin = bound > 0 ? fmt::format("give or take {:.3g}", bound) : "bit for bit";
  const Row row{index[0], index[1], index[2]};
  const int digits = DigitsToTellApart(observed, expected);
  v.sentence =
      fmt::format("{} is {} where {} {}, {}; the row sees {}{}: {}", DescribeElement(output, index),
                  Number(observed, digits), Number(expected, digits), due, margin,
                  DescribeVisibleKeys(p, row), DescribePlace(p, row), why);
  return v;
}

Verdict Worst(const Verdict& a, const Verdict& b) {
  const auto rank = [](VerdictKind kind) {
    switch (kind) {
      case VerdictKind::kFail:
        return 4;
      case VerdictKind::kInconclusive:
        return 3;
      case VerdictKind::kMarginal:
        return 2;
      case VerdictKind::kUnsupported:
        return 1;
      default:
        return 0;
    }
  };
  Verdict worst = rank(b.kind) > rank(a.kind) ? b : a;
  worst.rows = a.rows + b.rows;
  worst.uninformative_rows = a.uninformative_rows + b.uninformative_rows;
  worst.unconstrained_rows = a.unconstrained_rows + b.unconstrained_rows;
  worst.worst_ratio = std::max(a.worst_ratio, b.worst_ratio);
  return worst;
}

}  // namespace attest
