#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/outputs.h"
#include "properties/harness/judge/tally.h"

namespace attest {
namespace {

using Index = std::array<int64_t, 4>;

// Compares the lanes of one row of two outcomes.
class RelationJudge {
 public:
  RelationJudge(const Evidence& evidence, size_t a, size_t b, const RelationOptions& options)
      : evidence_(evidence), a_(a), b_(b), options_(options) {}

  // Whether the row is padding in either case.
  bool IsPadding(const Row& row) const {
    const Index at_a{row.batch, row.head, row.query, 0};
    const Index at_b = options_.to_b ? options_.to_b(at_a) : at_a;
    return IsPaddedQuery(evidence_.cases[a_].problem, row) ||
           IsPaddedQuery(evidence_.cases[b_].problem, {at_b[0], at_b[1], at_b[2]});
  }

  // Whether the row promises nothing in either case, for a finite filler might outweigh what it sees:
  // then hidden keys may well take part, and not even bits need stay.
  bool MayShowHiddenKeys(const Row& row) const {
    if (!evidence_.contract.masking_value) return false;
    const Index at_a{row.batch, row.head, row.query, 0};
    const Index at_b = options_.to_b ? options_.to_b(at_a) : at_a;
    return IsUnconstrained(evidence_, a_, row) ||
           IsUnconstrained(evidence_, b_, {at_b[0], at_b[1], at_b[2]});
  }

  void JudgeLanes(const Output& output, const Row& row, Tally& tally, bool& bits_differ) const {
    const Array& first = evidence_.outcomes[a_].*output.observed;
    const Array& second = evidence_.outcomes[b_].*output.observed;
    if (first.empty() || second.empty() || IsFree(output, row)) return;
    for (int64_t d = 0; d < first.shape[3]; ++d) {
      const Index at_a{row.batch, row.head, row.query, d};
      const Index at_b = options_.to_b ? options_.to_b(at_a) : at_a;
      const double x = first.At(at_a[0], at_a[1], at_a[2], at_a[3]);
      const double y = second.At(at_b[0], at_b[1], at_b[2], at_b[3]);
      if (SameBits(x, y)) continue;
      bits_differ = true;
      tally.See(output.name, at_a, x, y,
                options_.exact ? 0 : Allowed(output, at_a, at_b, std::abs(x - y)));
    }
  }

 private:
  // The most that the two results may differ by; infinite in unconstrained rows. The floors are
  // enough where the results differ by less.
  double Allowed(const Output& output, const Index& at_a, const Index& at_b,
                 double difference) const {
    const Row row_a{at_a[0], at_a[1], at_a[2]}, row_b{at_b[0], at_b[1], at_b[2]};
    const double floors = FloorOf(output, a_, row_a, at_a[3]) + FloorOf(output, b_, row_b, at_b[3]);
    if (difference <= floors) return floors;
    return output.number(evidence_.oracle.BoundOf(a_).WorstOf(row_a), at_a[3]) +
           output.number(evidence_.oracle.BoundOf(b_).WorstOf(row_b), at_b[3]);
  }

  double FloorOf(const Output& output, size_t index, const Row& row, int64_t lane) const {
    const Array& expected = evidence_.oracle.ReferenceOf(index).*output.expected;
    return output.floor(evidence_.oracle.BoundOf(index).FloorOf(row),
                        expected.At(row.batch, row.head, row.query, lane));
  }

  // An output of an empty row whose value the contract leaves open, or lets depend on hidden keys.
  bool IsFree(const Output& output, const Row& row) const {
    if (!IsEmptyRow(evidence_.cases[a_].problem, row)) return false;
    const Semantics& s = evidence_.contract.semantics;
    if (output.name == "lse") return !PromisedLse(s.lse_empty_row);
    // Scores do not ask whether a row is empty, unless they are weights.
    const bool is_score =
        output.name == "scores" && evidence_.cases[a_].problem.want_scores != ScoreMode::kWeights;
    return !is_score && !PromisedOut(s.empty_row);
  }

  const Evidence& evidence_;
  const size_t a_, b_;
  const RelationOptions& options_;
};

// One side of a relation that does not hold.
struct Side {
  size_t call;
  Index index;
  double value;
};

// Whether no rule gives the rows: no cause was found, or but that wider arithmetic would cover them.
bool IsWeakCause(const Verdict& verdict) {
  return verdict.likely_cause.empty() || verdict.cause_class == "numerics";
}

// What explains `from` explains the relation too.
void AddOthers(const Verdict& from, Verdict& verdict) {
  if (from.likely_cause.empty()) return;
  std::vector<OtherCause> more = from.other_causes;
  more.insert(more.begin(), {from.cause_class, from.likely_cause});
  for (const OtherCause& one : more) {
    const auto is_same = [&](const OtherCause& known) {
      return known.cause_class == one.cause_class;
    };
    if (one.cause_class != verdict.cause_class &&
        std::ranges::none_of(verdict.other_causes, is_same)) {
      verdict.other_causes.push_back(one);
    }
  }
}

// Explains the verdict by the first side, or by the second where no rule gives the first: a rule
// says more than arithmetic that would cover an error.
void ExplainEither(const Evidence& evidence, const Side& first, const Side& second,
                   Verdict& verdict) {
  const Verdict bare = verdict;
  Explain(evidence, first.call, first.index, verdict);
  if (!IsWeakCause(verdict) && !evidence.wants_every_cause) return;
  Verdict other = bare;
  Explain(evidence, second.call, second.index, other);
  const bool is_better = verdict.likely_cause.empty() || !IsWeakCause(other);
  if (IsWeakCause(verdict) && is_better) std::swap(verdict, other);
  AddOthers(other, verdict);
}

// How far a value is from what is due at its place.
double DistanceFromDue(const Evidence& evidence, std::string_view output, const Side& side) {
  const auto* found = std::ranges::find(kOutputs, output, &Output::name);
  const Array& reference = evidence.oracle.ReferenceOf(side.call).*found->expected;
  const auto& i = side.index;
  const double due = reference.At(i[0], i[1], i[2], i[3]);
  if (SameBits(due, side.value)) return 0;
  const double distance = std::abs(due - side.value);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

// "the first call", or where rows have moved "out[batch 0, head 1, query 2, lane 0] of a derived call".
std::string DescribeSide(std::string_view output, const Side& side, bool has_moved) {
  const char* call = side.call == 0 ? "the first call" : "a derived call";
  return has_moved ? fmt::format("{} of {}", DescribeElement(output, side.index), call) : call;
}

// What is shown is the side that is further from what is due, in its own place, or a replay would show a row
// that is as it should be.
Verdict FailRelation(const Evidence& evidence, size_t a, size_t b, std::string_view what,
                     const RelationOptions& options, const Tally& tally) {
  const Witness& w = tally.witness;
  const bool has_moved = static_cast<bool>(options.to_b);
  const Side first{a, w.index, w.expected};
  const Side second{b, has_moved ? options.to_b(w.index) : w.index, w.observed};
  const bool is_first = DistanceFromDue(evidence, tally.output, first) >
                        DistanceFromDue(evidence, tally.output, second);
  const Side& shown = is_first ? first : second;
  const Side& other = is_first ? second : first;
  Verdict failed = FailAt(evidence.cases[shown.call].problem, tally.output, shown.index,
                          other.value, shown.value, w.bound, what,
                          "came from " + DescribeSide(tally.output, other, has_moved));
  failed.call = shown.call;
  // The case as drawn first: what is derived from it may hold NaN, which tells causes apart badly.
  if (has_moved) {
    ExplainEither(evidence, shown, other, failed);
  } else {
    ExplainEither(evidence, first, second, failed);
  }
  failed.rows = tally.verdict.rows;
  return failed;
}

}  // namespace

Verdict SameResult(const Evidence& evidence, size_t a, size_t b, std::string_view what,
                   const RelationOptions& options) {
  const RelationJudge judge(evidence, a, b, options);
  Tally tally;
  bool bits_differ = false;
  ForEachRow(evidence.cases[a].problem, [&](const Row& row) {
    if ((options.rows && !options.rows(row)) || judge.IsPadding(row)) return;
    ++tally.verdict.rows;
    if (judge.MayShowHiddenKeys(row)) {
      ++tally.verdict.unconstrained_rows;
      return;
    }
    for (const Output& output : kOutputs) {
      if (output.name == "lse" && !options.compare_lse) continue;
      const bool is_by_key = output.name == "weights" || output.name == "scores";
      if (is_by_key && !options.compare_weights) continue;
      judge.JudgeLanes(output, row, tally, bits_differ);
    }
  });
  if (tally.failed()) return FailRelation(evidence, a, b, what, options, tally);
  if (bits_differ) {
    tally.verdict.kind = VerdictKind::kMarginal;
    tally.verdict.reason = "bits";
  }
  return tally.verdict;
}

}  // namespace attest
