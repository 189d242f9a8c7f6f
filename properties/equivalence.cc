// Equivalence: the kernel equals the reference, within what its arithmetic can be forgiven.
#include <array>
#include <cmath>
#include <limits>

#include "impl/reference/scalar_reference.h"
#include "properties/derive.h"
#include "properties/harness/judge/outputs.h"
#include "properties/judging.h"

namespace attest {
namespace {

Derived Itself(const Case& c, const Contract&) {
  return Of(c);
}

Verdict JudgeReference(const Evidence& evidence) {
  return MatchesReference(evidence, 0, "it does not match the reference");
}

// A property for what the runner notices on every call of every property.
Verdict JudgeAccepted(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return Pass(p.batch * p.q_heads * p.q_len);
}

// The second reference shares no code with the first, so a fault in either cannot hide a kernel's.
Derived ItselfIfSmall(const Case& c, const Contract&) {
  // 2^14 scores: the scalar reference is some fifty times slower than the first.
  if (ElementCount(c.problem.WeightsShape()) > (1 << 14)) return NotApplicable("too large");
  return Of(c);
}

// The second reference has 64 bits or more: 2^-11 of an f64 kernel's own roundings, and it is rounded
// to double at the end.
double WithSecondReference(double bound, double expected) {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  return bound * (1 + 0x1p-10) + 0x1p-53 * std::abs(expected);
}

// nullptr for what the second reference does not compute.
const Array* SecondOutput(const ScalarReference& second, std::string_view name) {
  if (name == "out") return &second.out;
  if (name == "lse") return &second.lse;
  if (name == "weights") return &second.weights;
  return name == "scores" ? &second.asked_scores : nullptr;
}

// Compares one row's lanes with the second reference; returns the first that is out of bounds.
std::optional<Verdict> CompareRow(const Evidence& evidence, const ScalarReference& second,
                                  const Row& row) {
  const Problem& p = evidence.cases[0].problem;
  const RowNumbers& bound = evidence.oracle.BoundOf(0).WorstOf(row);
  for (const Output& output : kOutputs) {
    const Array* due = SecondOutput(second, output.name);
    const Array& observed = evidence.outcomes[0].*output.observed;
    if (due == nullptr || observed.empty()) continue;
    const Array& expected = *due;
    for (int64_t lane = 0; lane < expected.shape[3]; ++lane) {
      const size_t at = expected.Index(row.batch, row.head, row.query, lane);
      const double margin = WithSecondReference(output.number(bound, lane), expected.values[at]);
      if (WithinBound(observed.values[at], expected.values[at], margin)) continue;
      const std::array<int64_t, 4> index{row.batch, row.head, row.query, lane};
      Verdict failed = FailAt(p, output.name, index, expected.values[at], observed.values[at],
                              margin, "it does not match the second reference");
      Explain(evidence, 0, index, failed);
      return failed;
    }
  }
  return std::nullopt;
}

Verdict JudgeSecondReference(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const ScalarReference second = ComputeScalarReference(p, evidence.oracle.InputsOf(0),
                                                        evidence.contract.semantics.softcap_order);
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    ++verdict.rows;
    if (IsEmptyRow(p, row)) return;  // the contract decides: see empty_rows
    if (IsOpenPadding(evidence, 0, row)) return;
    // As in matches_reference: where a score may overflow, NaN and infinity may stand for each other.
    if (IsUnconstrained(evidence, 0, row)) {
      ++verdict.unconstrained_rows;
      return;
    }
    const double lse = second.lse.At(row.batch, row.head, row.query, 0);
    if (std::isnan(lse) && !evidence.contract.visible_nan_propagates) return;
    if (verdict.kind == VerdictKind::kFail) return;
    if (auto failed = CompareRow(evidence, second, row)) verdict = *failed;
  });
  return verdict;
}

// A kernel may take another path when the LSE or the weights are asked for. The answer may not.
Derived AskForMoreAndLess(const Case& c, const Contract&) {
  Case less = c, more = c;
  less.problem.want_lse = less.problem.want_weights = false;
  more.problem.want_lse = more.problem.want_weights = true;
  return Of(std::move(less), std::move(more));
}

std::string NeedsASecondOutput(const Contract& c) {
  return c.lse != LseKind::kNone || c.Has(Feature::kWeights)
             ? ""
             : "the contract offers neither lse nor weights";
}

Verdict JudgeAsking(const Evidence& evidence) {
  return SameResult(evidence, 0, 1, "the output depends on whether lse and weights are asked for");
}

// The first of all properties: it catches most faults, and with its first few cases (`attest power`).
constexpr std::array<Property, 4> kProperties = {{
    {"equivalence.matches_reference",
     "out, lse and weights equal the double reference within the derived bound", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, Itself, JudgeReference},
    {"equivalence.promised_calls_are_accepted",
     "a call that the contract promises is computed, not refused", Exactness::kExact,
     Rung::kWritesEveryOutput, "nothing", AlwaysSupported, Itself, JudgeAccepted},
    {"equivalence.matches_second_reference",
     "out, lse and weights equal an independent long-double reference within the same bound",
     Exactness::kBound, Rung::kWithinBound, "nothing", AlwaysSupported, ItselfIfSmall,
     JudgeSecondReference},
    {"equivalence.asking_for_lse_and_weights_changes_no_output",
     "out is the same whether lse and weights are asked for or not", Exactness::kBound,
     Rung::kWithinBound, "lse or weights", NeedsASecondOutput, AskForMoreAndLess, JudgeAsking},
}};

}  // namespace

std::span<const Property> EquivalenceProperties() {
  return kProperties;
}

}  // namespace attest
