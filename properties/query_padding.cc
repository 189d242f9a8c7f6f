// Query padding: rows at or beyond an item's query length are not there. Their data and their number
// change no other row, and they hold what the contract says. Has caught: padded rows left as garbage
// or NaN that later sums pick up, rows written one item too far.
#include <algorithm>
#include <array>
#include <cmath>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

Derived PaddedRowsChanged(const Case& original, const Contract&) {
  const Case c = AsLiteral(EnsureQueryLengths(original));
  const Problem& p = c.problem;
  Draw draw = DrawFor(c, 0x9ADD);
  Array q = c.literals.at(DataTensor::kQ);
  bool any = false;
  ForEachRow(p, [&](const Row& row) {
    if (!IsPaddedQuery(p, row)) return;
    any = true;
    for (int64_t d = 0; d < p.head_dim; ++d) {
      q.At(row.batch, row.head, row.query, d) = static_cast<double>(draw.Between(-32, 32)) / 8;
    }
  });
  if (!any) return NotApplicable("no row is padding");
  return Of(c, WithData(c, DataTensor::kQ, std::move(q)));
}

Verdict JudgeOtherRows(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kHiddenValues);
  options.rows = [&](const Row& row) { return !IsPaddedQuery(p, row); };
  return SameResult(evidence, 0, 1, "a padded query changed another row", options);
}

Derived WithAndWithoutPaddedRows(const Case& original, const Contract& contract) {
  const Case c = AsLiteral(EnsureQueryLengths(original));
  const auto& lengths = *c.problem.query_lengths;
  const int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  if (longest == c.problem.q_len) return NotApplicable("no row is padding in every item");
  if (longest == 0 && !contract.Has(Feature::kZeroSizes)) return NotApplicable("all is padding");
  return Of(c, Select(c, Axis::kQLen, IndexRange(0, longest)));
}

Verdict JudgeFewerRows(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kQLen);
  options.rows = [&](const Row& row) { return !IsPaddedQuery(p, row); };
  return SameResult(evidence, 0, 1, "the result depends on how many padded queries there are",
                    options);
}

std::string NeedsPaddedPromise(const Contract& c) {
  if (std::string reason = Lacks(c, Feature::kQueryLengths); !reason.empty()) return reason;
  const bool promised = c.padded_query_rows == PaddedQueryRows::kZero ||
                        c.padded_query_rows == PaddedQueryRows::kComputed;
  return promised ? "" : "the contract leaves padded rows open";
}

Derived WithPaddedRows(const Case& original, const Contract&) {
  Case c = EnsureQueryLengths(original);
  c.storage.packed = false;  // there are no padded rows
  return Of(std::move(c));
}

// The case as if it had no padding: where that is computed like any other row, any fault of a row may show in it.
void AddCausesOfAnyRow(const Evidence& evidence, Verdict& failed) {
  Case whole = evidence.cases[0];
  whole.problem.query_lengths.reset();
  Oracle oracle({&whole, 1}, evidence.contract);
  const Evidence unpadded{
      evidence.contract,         {&whole, 1}, evidence.outcomes.first(1), oracle, {},
      evidence.wants_every_cause};
  Verdict any = failed;
  Explain(unpadded, 0, failed.witness->index, any);
  failed.other_causes = std::move(any.other_causes);
  if (!any.likely_cause.empty()) {
    failed.other_causes.insert(failed.other_causes.begin(), {any.cause_class, any.likely_cause});
  }
}

// What is wrong in the other rows is wrong here, too; padding is the cause where it alone is wrong.
void NameCause(const Evidence& evidence, Verdict& failed) {
  if (failed.cause_class == "empty-row") return;  // padded or not
  const Verdict others = MatchesReference(evidence, 0, "");
  failed.cause_class = "padded-query-rows";
  failed.likely_cause = "rows beyond the query length alone are not what the contract promises";
  if (others.kind == VerdictKind::kFail) {
    failed.cause_class = others.cause_class;
    failed.likely_cause = others.likely_cause;
    failed.other_causes = others.other_causes;
  } else if (evidence.wants_every_cause &&
             evidence.contract.padded_query_rows == PaddedQueryRows::kComputed) {
    AddCausesOfAnyRow(evidence, failed);
  }
  if (!failed.likely_cause.empty()) failed.sentence += "; " + failed.likely_cause;
}

Verdict JudgePaddedRows(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const bool is_computed = evidence.contract.padded_query_rows == PaddedQueryRows::kComputed;
  Verdict verdict = MatchesReference(
      evidence, 0,
      is_computed ? "the row is padding, and computed like any other"
                  : "the row is padding, and the contract promises zero",
      [&](const Row& row) { return IsPaddedQuery(p, row); }, PaddedRows::kAsPromised);
  if (verdict.kind == VerdictKind::kFail) NameCause(evidence, verdict);
  return verdict;
}

constexpr std::array<Property, 3> kProperties = {{
    {"query_padding.padded_queries_change_no_other_row",
     "changing queries beyond an item's length changes no bit of the others", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "query_lengths", Needs<Feature::kQueryLengths>, PaddedRowsChanged,
     JudgeOtherRows},
    {"query_padding.removing_padded_queries_changes_nothing",
     "cutting off queries that are padding in every item changes no other row", Exactness::kBound,
     Rung::kHiddenMeansHidden, "query_lengths", Needs<Feature::kQueryLengths>,
     WithAndWithoutPaddedRows, JudgeFewerRows},
    {"query_padding.padded_rows_hold_what_is_promised",
     "rows beyond an item's length are zero, or computed, as the contract says", Exactness::kBound,
     Rung::kMaskCorrect, "query_lengths, padded_query_rows zero or computed", NeedsPaddedPromise,
     WithPaddedRows, JudgePaddedRows},
}};

}  // namespace

std::span<const Property> QueryPaddingProperties() {
  return kProperties;
}

}  // namespace attest
