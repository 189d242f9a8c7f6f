// MatchesReference, in the order that costs least: the floor of W on every row; W and the
// probabilistic tiers where that does not settle it, and on a sample of one row in eight.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <fmt/format.h>

#include "impl/reference/plain_precision.h"
#include "impl/reference/statistics.h"
#include "properties/harness/case/random.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/outputs.h"
#include "properties/harness/judge/padding.h"
#include "properties/harness/judge/tally.h"

namespace attest {
namespace {

constexpr uint64_t kSampleOneIn = 8;

// Whether the type can hold the value. RoundTo says the same of every type, call by call.
bool CanHold(DType type, double value) {
  if (type == DType::kF64) return true;
  if (type == DType::kF32) {
    return static_cast<double>(static_cast<float>(value)) == value || std::isnan(value);
  }
  return SameBits(RoundTo(type, value), value);
}

// Judges the rows of one outcome against the reference.
class ReferenceJudge {
 public:
  ReferenceJudge(const Evidence& evidence, size_t index, PaddedRows padded)
      : padded_(padded),
        contract_(evidence.contract),
        index_(index),
        case_(evidence.cases[index]),
        p_(case_.problem),
        inputs_(evidence.oracle.InputsOf(index)),
        outcome_(evidence.outcomes[index]),
        reference_(evidence.oracle.ReferenceOf(index)),
        bound_(evidence.oracle.BoundOf(index)),
        sample_hash_(MixBits(case_.recipe.seed)) {}

  void JudgeRow(const Row& row) {
    const PaddingDue due = DueOf(row);
    if (due == PaddingDue::kNothing) return;
    ++tally_.verdict.rows;
    if (due == PaddingDue::kZeroOut) return JudgeConstant(kOutputs[0], row, 0.0);
    const bool is_empty = IsEmptyRow(p_, row);
    const bool may_be_nan = !is_empty && !contract_.visible_nan_propagates && ExpectsNan(row);
    if (bound_.IsUnconstrained(row) || may_be_nan) {
      ++tally_.verdict.unconstrained_rows;
      return;
    }
    CheckRepresentable(row);
    if (is_empty) return JudgeEmptyRow(row);
    if (bound_.StateOf(row) == RowState::kUninformative) ++tally_.verdict.uninformative_rows;
    const bool settled = IsSettledRow(outcome_, reference_, bound_, row);
    const bool sampled = IsSampled(row);
    if (settled && !sampled) return;
    const RowNumbers& allowed = bound_.WorstOf(row);
    ForEachLane(row, [&](const Output& output, int64_t lane, double expected, double observed) {
      tally_.See(output.name, {row.batch, row.head, row.query, lane}, expected, observed,
                 output.number(allowed, lane));
    });
    LookCloser(row, sampled);
  }

  // Adds what whole tensors show, and makes a verdict of it.
  Verdict Conclude(const Evidence& evidence, size_t index, std::string_view what) {
    if (unrepresentable_) return FailUnrepresentable();
    Verdict& verdict = tally_.verdict;
    ErrorFigures& figures = verdict.figures;
    if (statistics_.count() >= kRmsLeastCount) figures.rms = statistics_.rms();
    if (HasNormalValues() && statistics_.count() >= kBiasLeastCount) {
      figures.bias = std::abs(statistics_.bias());
    }
    if (tally_.failed() || IsSampled(Row{})) figures.plain_ratio = PlainRatio();
    if (tally_.failed()) return Fail(evidence, index, what);
    if (figures.probable_ratio > 1 || figures.rms > kRmsLimit || figures.bias > kBiasLimit) {
      verdict.kind = VerdictKind::kMarginal;
      verdict.reason = "statistics";
    }
    return verdict;
  }

 private:
  template <typename Visitor>
  void ForEachLane(const Row& row, Visitor&& visit) const {
    for (const Output& output : kOutputs) {
      const Array& observed = outcome_.*output.observed;
      if (observed.empty()) continue;
      const Array& expected = reference_.*output.expected;
      const size_t first = expected.Index(row.batch, row.head, row.query, 0);
      for (int64_t lane = 0; lane < expected.shape[3]; ++lane) {
        const size_t at = first + static_cast<size_t>(lane);
        visit(output, lane, expected.values[at], observed.values[at]);
      }
    }
  }

  bool ExpectsNan(const Row& row) const {
    if (std::isnan(reference_.lse.At(row.batch, row.head, row.query, 0))) return true;
    const Array& out = reference_.out;
    const auto first = out.values.begin() +
                       static_cast<std::ptrdiff_t>(out.Index(row.batch, row.head, row.query, 0));
    return std::any_of(first, first + p_.value_dim, [](double o) { return std::isnan(o); });
  }

  // A result in doubles that its type cannot hold was never stored: something between the kernel
  // and here is broken. (An lse may have been converted from base 2 since.)
  void CheckRepresentable(const Row& row) {
    if (p_.dtype == DType::kF64) return;
    ForEachLane(row, [&](const Output& output, int64_t lane, double expected, double observed) {
      if (unrepresentable_ || output.name == "lse") return;
      if (CanHold(p_.dtype, observed)) return;
      unrepresentable_ = Witness{{row.batch, row.head, row.query, lane}, expected, observed, 0};
      tally_.output = output.name;
    });
  }

  PaddingDue DueOf(const Row& row) const {
    if (padded_ == PaddedRows::kLeftOut && IsPaddedQuery(p_, row)) return PaddingDue::kNothing;
    return PaddingDueOf(p_, case_.storage.packed, contract_, row);
  }

  // One value in every lane of the row, exactly; nullopt = any will do.
  void JudgeConstant(const Output& output, const Row& row, std::optional<double> promised) {
    const Array& observed = outcome_.*output.observed;
    if (!promised || observed.empty()) return;
    for (int64_t d = 0; d < observed.shape[3]; ++d) {
      tally_.See(output.name, {row.batch, row.head, row.query, d}, *promised,
                 observed.At(row.batch, row.head, row.query, d), 0);
    }
  }

  void JudgeEmptyRow(const Row& row) {
    const Semantics& s = contract_.semantics;
    JudgeConstant(kOutputs[0], row, PromisedOut(s.empty_row));
    JudgeConstant(kOutputs[1], row, PromisedLse(s.lse_empty_row));
    if (s.empty_row == EmptyRow::kZero) JudgeConstant(kOutputs[2], row, 0.0);
    if (!outcome_.scores.empty()) JudgeEmptyRowsScores(row);
  }

  // They are scores like any other, but for the weights among them.
  void JudgeEmptyRowsScores(const Row& row) {
    if (p_.want_scores == ScoreMode::kWeights && contract_.semantics.empty_row != EmptyRow::kZero) {
      return;
    }
    const RowNumbers& allowed = bound_.WorstOf(row);
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      const size_t at = outcome_.scores.Index(row.batch, row.head, row.query, j);
      tally_.See("scores", {row.batch, row.head, row.query, j}, reference_.asked_scores.values[at],
                 outcome_.scores.values[at], allowed.scores[static_cast<size_t>(j)]);
    }
  }

  // By the case's own seed, so that a rerun looks at the same rows.
  bool IsSampled(const Row& row) const {
    uint64_t hash = sample_hash_;
    for (const int64_t i : {row.batch, row.head, row.query}) {
      hash = MixIn(hash, static_cast<uint64_t>(i));
    }
    return hash % kSampleOneIn == 0;
  }

  // The probabilistic tiers. Only the sample enters the statistics: rows that were picked for their
  // errors would tilt them.
  void LookCloser(const Row& row, bool sampled) {
    const RowNumbers& probable = bound_.ProbableOf(row);
    double& worst = tally_.verdict.figures.probable_ratio;
    ForEachLane(row, [&](const Output& output, int64_t lane, double expected, double observed) {
      const double ratio = Ratio(observed, expected, output.number(probable, lane));
      if (std::isfinite(ratio)) worst = std::max(worst, ratio);
    });
    if (!sampled) return;
    const RowNumbers& spread = bound_.SpreadOf(row);
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      const double expected = reference_.out.At(row.batch, row.head, row.query, d);
      statistics_.Add(outcome_.out.At(row.batch, row.head, row.query, d) - expected,
                      spread.out[static_cast<size_t>(d)], expected);
    }
  }

  bool HasNormalValues() const {
    return case_.recipe.values == ValueFamily::kNormal && case_.overrides.empty() &&
           case_.literals.empty();
  }

  // The largest error of out over that of plain attention in the same precision.
  double PlainRatio() {
    const Array plain = ComputePlainPrecision(p_, inputs_, contract_.NumericsOf(p_.dtype),
                                              contract_.semantics.softcap_order);
    double kernel = 0, yardstick = 0;
    ForEachRow(p_, [&](const Row& row) {
      if (DueOf(row) != PaddingDue::kAsAnyRow || bound_.IsUnconstrained(row) ||
          IsEmptyRow(p_, row) || ExpectsNan(row)) {
        return;
      }
      for (int64_t d = 0; d < p_.value_dim; ++d) {
        const size_t at = plain.Index(row.batch, row.head, row.query, d);
        const double expected = reference_.out.values[at];
        kernel = std::max(kernel, std::abs(outcome_.out.values[at] - expected));
        yardstick = std::max(yardstick, std::abs(plain.values[at] - expected));
      }
    });
    return yardstick > 0 && std::isfinite(kernel) ? kernel / yardstick : 0;
  }

  Verdict WithCounts(Verdict verdict) const {
    verdict.rows = tally_.verdict.rows;
    verdict.uninformative_rows = tally_.verdict.uninformative_rows;
    verdict.unconstrained_rows = tally_.verdict.unconstrained_rows;
    verdict.worst_ratio = tally_.verdict.worst_ratio;
    verdict.figures = tally_.verdict.figures;
    return verdict;
  }

  Verdict FailUnrepresentable() const {
    const Witness& w = *unrepresentable_;
    Verdict failed = FailAt(p_, tally_.output, w.index, w.expected, w.observed, w.bound,
                            fmt::format("the value is not representable in {}", Name(p_.dtype)));
    failed.call = index_;
    return WithCounts(std::move(failed));
  }

  Verdict Fail(const Evidence& evidence, size_t index, std::string_view what) const {
    const Witness& w = tally_.witness;
    Verdict failed = FailAt(p_, tally_.output, w.index, w.expected, w.observed, w.bound, what);
    Explain(evidence, index, w.index, failed);
    failed.call = index;
    return WithCounts(std::move(failed));
  }

  const PaddedRows padded_;
  const Contract& contract_;
  const size_t index_;
  const Case& case_;
  const Problem& p_;
  const Inputs& inputs_;
  const Outcome& outcome_;
  const Reference& reference_;
  ErrorBound& bound_;
  const uint64_t sample_hash_;
  Tally tally_;
  ErrorStatistics statistics_;
  std::optional<Witness> unrepresentable_;
};

}  // namespace

Verdict MatchesReference(const Evidence& evidence, size_t index, std::string_view what,
                         const RowFilter& rows, PaddedRows padded) {
  ReferenceJudge judge(evidence, index, padded);
  ForEachRow(evidence.cases[index].problem, [&](const Row& row) {
    if (!rows || rows(row)) judge.JudgeRow(row);
  });
  return judge.Conclude(evidence, index, what);
}

}  // namespace attest
