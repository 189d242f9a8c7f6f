// Heads: each query head reads its own group's keys and values, and no other's. Has caught: jax-js
// (tile order 0,1,0,1), llama.cpp#19115 (group size rounded up), lighthouse#77.
#include <array>
#include <cmath>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

// Labels are 10 * batch + kv_head: small integers a whole unit apart, so that the nearest integer
// tells them apart in any arithmetic worth the name. Scores are kept mild for that, and nothing takes
// a share of the weights away. Arithmetic that is not (sums kept in f16 over many keys) may
// mistake labels as far as its declared bound goes: such a row says nothing.
Derived LabelledHeads(const Case& original, const Contract&) {
  Case c = WithoutFp8(original);
  c.problem.sinks.reset();
  c.problem.dropout.reset();
  return Of(WithScores(WithValues(c, ValueFamily::kLabels), ScoreFamily::kSmallIntegers));
}

// Below half a unit, and above what weights rounded to bf16 (2^-8) do to labels under 100.
constexpr double kTellsLabelsApart = 0.45;

Verdict JudgeLabels(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const Array& v = evidence.oracle.InputsOf(0).v;
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail || IsEmptyRow(p, row)) return;
    ++verdict.rows;
    if (IsUnconstrained(evidence, 0, row) || IsOpenPadding(evidence, 0, row)) {
      ++verdict.unconstrained_rows;
      return;
    }
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const double label = v.At(row.batch, row.head / p.heads_per_kv_head(), 0, d);
      const double got = evidence.outcomes[0].out.At(row.batch, row.head, row.query, d);
      if (std::abs(got - label) <= kTellsLabelsApart) continue;
      // Asked for here alone: a bound costs more than the comparison.
      if (WithinBound(got, label, OutOf(evidence, 0, row, d).bound)) {
        ++verdict.unconstrained_rows;
        return;
      }
      verdict = FailAt(p, "out", {row.batch, row.head, row.query, d}, label, got, kTellsLabelsApart,
                       "V is labelled 10 * batch + kv head: another batch item's or head's values "
                       "came back");
      return;
    }
  });
  return verdict;
}

Derived TogetherAndOneGroup(const Case& original, const Contract&) {
  const Case c = AsLiteral(original);
  if (c.problem.kv_heads < 2) return NotApplicable("one kv head");
  const int64_t kv_head = DrawFor(c, 0x6E).Below(c.problem.kv_heads);
  return Of(c, SelectHeads(c, {kv_head}, c.problem.heads_per_kv_head()));
}

Verdict JudgeGroup(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const int64_t kv_head = DrawFor(evidence.cases[0], 0x6E).Below(p.kv_heads);
  const int64_t first = kv_head * p.heads_per_kv_head();
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kHeads);
  options.rows = [&](const Row& row) { return row.head / p.heads_per_kv_head() == kv_head; };
  options.to_b = [=](const std::array<int64_t, 4>& i) {
    return std::array<int64_t, 4>{i[0], i[1] - first, i[2], i[3]};
  };
  return SameResult(evidence, 0, 1, "a head group alone gives another answer than among others",
                    options);
}

Derived GroupedAndRepeated(const Case& original, const Contract&) {
  const Case grouped = AsLiteral(original);
  const Problem& p = grouped.problem;
  if (p.heads_per_kv_head() < 2) return NotApplicable("each query head has a kv head of its own");
  std::vector<int64_t> kv_head_of;
  for (int64_t h = 0; h < p.q_heads; ++h) kv_head_of.push_back(h / p.heads_per_kv_head());
  Case repeated = grouped;
  repeated.problem.kv_heads = p.q_heads;
  for (const DataTensor tensor : {DataTensor::kK, DataTensor::kV}) {
    repeated.literals[tensor] = SelectArray(grouped.literals.at(tensor), 1, kv_head_of);
  }
  return Of(grouped, std::move(repeated));
}

Verdict JudgeRepeated(const Evidence& evidence) {
  return SameResult(evidence, 0, 1,
                    "shared kv heads give another answer than the same heads repeated");
}

constexpr std::array<Property, 3> kProperties = {{
    {"heads.labels_come_back", "with V labelled by batch item and kv head, each head gives its own",
     Exactness::kExact, Rung::kWithinBound, "nothing", AlwaysSupported, LabelledHeads, JudgeLabels},
    {"heads.a_group_alone_equals_itself_among_others",
     "one kv head and its query heads in a call of their own give the same rows", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, TogetherAndOneGroup, JudgeGroup},
    {"heads.shared_equals_repeated",
     "query heads that share a kv head give what they give with a copy each", Exactness::kBound,
     Rung::kWithinBound, "gqa", Needs<Feature::kGqa>, GroupedAndRepeated, JudgeRepeated},
}};

}  // namespace

std::span<const Property> HeadsProperties() {
  return kProperties;
}

}  // namespace attest
