// Row sums: each row's weights are a distribution over its visible keys, and the output their mean.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "properties/derive.h"
#include "properties/judging.h"

namespace attest {
namespace {

Derived OnesAsValues(const Case& c, const Contract&) {
  return Of(WithValues(c, ValueFamily::kOnes));
}

Verdict JudgeOnes(const Evidence& evidence) {
  return MatchesReference(evidence, 0, "V is all ones, so the row's weights do not sum to one");
}

Derived ConstantValues(const Case& c, const Contract&) {
  return Of(WithValues(c, ValueFamily::kConstant));
}

Verdict JudgeConstant(const Evidence& evidence) {
  return MatchesReference(evidence, 0, "V is constant, and the constant did not come back");
}

// Dropout raises what it keeps, out of the hull.
Derived WithoutDropout(const Case& original, const Contract&) {
  Case c = original;
  c.problem.dropout.reset();
  return Of(std::move(c));
}

Verdict JudgeHull(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const Array& v = evidence.oracle.InputsOf(0).v;
  const Array& out = evidence.outcomes[0].out;
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail || !IsOrdinary(evidence, 0, row)) return;
    ++verdict.rows;
    const std::vector<int64_t> keys = VisibleKeys(p, row);
    for (int64_t d = 0; d < p.value_dim; ++d) {
      double low = std::numeric_limits<double>::infinity(), high = -low;
      if (p.sinks) low = high = 0;  // a sink's value
      bool has_nan = false;
      for (const int64_t j : keys) {
        const double x = v.At(row.batch, row.head / p.heads_per_kv_head(), j, d);
        has_nan |= std::isnan(x);
        low = std::min(low, x);
        high = std::max(high, x);
      }
      if (has_nan) continue;
      const std::array<int64_t, 4> at{row.batch, row.head, row.query, d};
      const double got = out.At(at[0], at[1], at[2], at[3]);
      const double margin = evidence.oracle.BoundOf(0).WorstOf(row).out[static_cast<size_t>(d)];
      const double nearest = std::clamp(got, low, high);  // NaN stays NaN
      if (std::isnan(got) || !WithinBound(got, nearest, margin)) {
        verdict = FailAt(p, "out", at, std::isnan(got) ? low : nearest, got, margin,
                         "it lies outside the visible values it is a mean of");
        return;
      }
    }
  });
  return verdict;
}

Derived WithWeights(const Case& original, const Contract&) {
  Case c = original;
  c.problem.want_weights = true;
  return Of(std::move(c));
}

// The sum of a row's weights may miss one, less the sink's share, by the sum of their bounds.
std::optional<Verdict> JudgeWeightRow(const Evidence& evidence, const Row& row) {
  const Problem& p = evidence.cases[0].problem;
  const Array& weights = evidence.outcomes[0].weights;
  const Array& reference = evidence.oracle.ReferenceOf(0).weights;
  double sum = 0, margin = 0, due = 0;
  for (int64_t j = 0; j < p.kv_len; ++j) {
    const std::array<int64_t, 4> at{row.batch, row.head, row.query, j};
    const double w = weights.At(at[0], at[1], at[2], at[3]);
    if (w < 0) return FailAt(p, "weights", at, 0, w, 0, "a weight is negative");
    const unsigned why = WhyHidden(p, row, j);
    if (why != kHiddenByNothing && w != 0 && !std::isnan(w)) {
      return FailAt(p, "weights", at, 0, w, 0, "a hidden key has weight");
    }
    sum += w;
    due += reference.At(at[0], at[1], at[2], at[3]);
    margin += evidence.oracle.BoundOf(0).WorstOf(row).weights[static_cast<size_t>(j)];
  }
  // The sum is taken here in double.
  const double here = static_cast<double>(p.kv_len) * 0x1p-53;
  if (!p.sinks) due = 1;
  if (WithinBound(sum, due, margin + here)) return std::nullopt;
  return FailAt(p, "weights", {row.batch, row.head, row.query, 0}, due, sum, margin,
                "the row's weights (their sum is shown) do not sum to one, less the sink's share");
}

Verdict JudgeWeights(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail || !IsOrdinary(evidence, 0, row)) return;
    ++verdict.rows;
    if (auto failed = JudgeWeightRow(evidence, row)) verdict = *failed;
  });
  return verdict;
}

constexpr std::array<Property, 4> kProperties = {{
    {"row_sums.ones_give_one", "with V all ones the output is one, less a sink's share",
     Exactness::kBound, Rung::kWithinBound, "nothing", AlwaysSupported, OnesAsValues, JudgeOnes},
    {"row_sums.a_constant_value_comes_back",
     "with V constant the output is the constant, less a sink's share", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, ConstantValues, JudgeConstant},
    {"row_sums.output_lies_in_the_hull_of_visible_values",
     "each output lies between the least and the greatest visible value (a sink's is zero)",
     Exactness::kBound, Rung::kWithinBound, "nothing", AlwaysSupported, WithoutDropout, JudgeHull},
    {"row_sums.weights_are_a_distribution",
     "weights are not negative, zero where hidden, and sum to one, less a sink's share",
     Exactness::kBound, Rung::kWithinBound, "weights", NeedsWeights, WithWeights, JudgeWeights},
}};

}  // namespace

std::span<const Property> RowSumsProperties() {
  return kProperties;
}

}  // namespace attest
