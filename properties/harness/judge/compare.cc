#include "properties/harness/judge/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "properties/harness/judge/explain.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Index = std::array<int64_t, 4>;

double Ratio(double observed, double expected, double bound) {
  if (WithinBound(observed, expected, bound)) {
    const double error = std::abs(observed - expected);
    return bound > 0 && std::isfinite(bound) && error > 0 ? error / bound : 0;
  }
  const double error = std::abs(observed - expected);
  return std::isfinite(error) && bound > 0 ? error / bound : kInf;
}

// Keeps the worst element seen and fails on it at the end.
struct Worker {
  Verdict verdict;
  double worst = -1;
  std::string_view output;
  Witness witness;

  void See(std::string_view name, const Index& index, double expected, double observed,
           double bound) {
    const double ratio = Ratio(observed, expected, bound);
    verdict.worst_ratio = std::max(verdict.worst_ratio, ratio);
    if (ratio <= 1 || ratio <= worst) return;
    worst = ratio;
    output = name;
    witness = {index, expected, observed, bound};
  }
  bool failed() const { return worst > 1; }
};

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

// The sign of a NaN says nothing.
std::string Number(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.9g}", value);
}

std::string DescribeElement(std::string_view output, const Index& i) {
  const std::string row = fmt::format("{}[batch {}, head {}, query {}", output, i[0], i[1], i[2]);
  if (output == "lse") return row + "]";
  return fmt::format("{}, {} {}]", row, output == "weights" ? "key" : "lane", i[3]);
}

// The value that the contract promises an empty row; nullopt where it promises none that can be
// checked here (the mean and the unmasked softmax have a property of their own).
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

// Judges the rows of one outcome against the reference.
class ReferenceJudge {
 public:
  ReferenceJudge(const Evidence& evidence, size_t index)
      : contract_(evidence.contract),
        p_(evidence.cases[index].problem),
        outcome_(evidence.outcomes[index]),
        reference_(evidence.oracle.ReferenceOf(index)),
        bound_(evidence.oracle.BoundOf(index)) {}

  void JudgeRow(const Row& row, Worker& worker) const {
    ++worker.verdict.rows;
    if (IsEmptyRow(p_, row)) return JudgeEmptyRow(row, worker);
    const RowState state = bound_.RowAt(p_, row.batch, row.head, row.query);
    if (state == RowState::kUnconstrained ||
        (!contract_.visible_nan_propagates && ExpectsNan(row))) {
      ++worker.verdict.unconstrained_rows;
      return;
    }
    if (state == RowState::kUninformative) ++worker.verdict.uninformative_rows;
    JudgeLanes("out", row, reference_.out, outcome_.out, bound_.out, worker);
    JudgeLanes("lse", row, reference_.lse, outcome_.lse, bound_.lse, worker);
    JudgeLanes("weights", row, reference_.weights, outcome_.weights, bound_.weights, worker);
  }

 private:
  bool ExpectsNan(const Row& row) const {
    if (std::isnan(reference_.lse.At(row.batch, row.head, row.query, 0))) return true;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (std::isnan(reference_.out.At(row.batch, row.head, row.query, d))) return true;
    }
    return false;
  }

  void JudgeLanes(std::string_view name, const Row& row, const Array& expected,
                  const Array& observed, const Array& bound, Worker& worker) const {
    if (observed.empty()) return;
    for (int64_t d = 0; d < expected.shape[3]; ++d) {
      const size_t at = expected.Index(row.batch, row.head, row.query, d);
      worker.See(name, {row.batch, row.head, row.query, d}, expected.values[at],
                 observed.values[at], bound.values[at]);
    }
  }

  void JudgeConstant(std::string_view name, const Row& row, std::optional<double> expected,
                     const Array& observed, Worker& worker) const {
    if (!expected || observed.empty()) return;
    for (int64_t d = 0; d < observed.shape[3]; ++d) {
      worker.See(name, {row.batch, row.head, row.query, d}, *expected,
                 observed.At(row.batch, row.head, row.query, d), 0);
    }
  }

  void JudgeEmptyRow(const Row& row, Worker& worker) const {
    const Semantics& s = contract_.semantics;
    if (bound_.RowAt(p_, row.batch, row.head, row.query) == RowState::kUnconstrained) {
      ++worker.verdict.unconstrained_rows;
      return;
    }
    JudgeConstant("out", row, PromisedOut(s.empty_row), outcome_.out, worker);
    JudgeConstant("lse", row, PromisedLse(s.lse_empty_row), outcome_.lse, worker);
    if (s.empty_row == EmptyRow::kZero)
      JudgeConstant("weights", row, 0.0, outcome_.weights, worker);
  }

  const Contract& contract_;
  const Problem& p_;
  const Outcome& outcome_;
  const Reference& reference_;
  const Bound& bound_;
};

// Compares the lanes of one row of two outcomes.
class RelationJudge {
 public:
  RelationJudge(const Evidence& evidence, size_t a, size_t b, const RelationOptions& options)
      : evidence_(evidence), a_(a), b_(b), options_(options) {}

  // The largest of what the two results may differ by; infinite in unconstrained rows.
  double Allowed(const Array Bound::*field, const Index& at_a, const Index& at_b) const {
    const auto of = [&](size_t index, const Index& i) {
      return (evidence_.oracle.BoundOf(index).*field).At(i[0], i[1], i[2], i[3]);
    };
    return of(a_, at_a) + of(b_, at_b);
  }

  void JudgeLanes(std::string_view name, const Row& row, const Array Outcome::*output,
                  const Array Bound::*bound, Worker& worker, bool& bits_differ) const {
    const Array& first = evidence_.outcomes[a_].*output;
    const Array& second = evidence_.outcomes[b_].*output;
    if (first.empty() || second.empty() || IsFree(name, row)) return;
    for (int64_t d = 0; d < first.shape[3]; ++d) {
      const Index at_a{row.batch, row.head, row.query, d};
      const Index at_b = options_.to_b ? options_.to_b(at_a) : at_a;
      const double x = first.At(at_a[0], at_a[1], at_a[2], at_a[3]);
      const double y = second.At(at_b[0], at_b[1], at_b[2], at_b[3]);
      if (SameBits(x, y)) continue;
      bits_differ = true;
      worker.See(name, at_a, x, y, options_.exact ? 0 : Allowed(bound, at_a, at_b));
    }
  }

 private:
  // An output of an empty row whose value the contract leaves open, or lets depend on hidden keys.
  bool IsFree(std::string_view name, const Row& row) const {
    if (!IsEmptyRow(evidence_.cases[a_].problem, row)) return false;
    const Semantics& s = evidence_.contract.semantics;
    return name == "lse" ? !PromisedLse(s.lse_empty_row) : !PromisedOut(s.empty_row);
  }

  const Evidence& evidence_;
  const size_t a_, b_;
  const RelationOptions& options_;
};

// The tolerance with which explanations are matched: a few hundred roundings of the dtype.
double ExplainTolerance(DType dtype) {
  return 256 * TraitsOf(dtype).unit_roundoff;
}

// Adds the likely cause of the row that case `index` has at `at`, where one is found.
void Explain(const Evidence& evidence, size_t index, const Index& at, Verdict& verdict) {
  const Problem& p = evidence.cases[index].problem;
  verdict.likely_cause = LikelyCause(p, evidence.oracle.InputsOf(index), evidence.outcomes[index],
                                     {at[0], at[1], at[2]}, ExplainTolerance(p.dtype));
  if (!verdict.likely_cause.empty()) verdict.sentence += "; " + verdict.likely_cause;
}

}  // namespace

bool SameBits(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool WithinBound(double observed, double expected, double bound) {
  if (bound == kInf || SameBits(observed, expected)) return true;
  return std::abs(observed - expected) <= bound;  // false for NaN and for unlike infinities
}

bool IsUnconstrained(const Evidence& evidence, size_t index, const Row& row) {
  const Problem& p = evidence.cases[index].problem;
  return evidence.oracle.BoundOf(index).RowAt(p, row.batch, row.head, row.query) ==
         RowState::kUnconstrained;
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

Verdict NoBoundYet(DType dtype) {
  Verdict v;
  v.kind = VerdictKind::kUnsupported;
  v.reason = fmt::format("no bound yet for {}", Name(dtype));
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
  v.sentence = fmt::format("{} is {} where {} {}, {}; the row sees {}: {}",
                           DescribeElement(output, index), Number(observed), Number(expected), due,
                           margin, DescribeVisibleKeys(p, {index[0], index[1], index[2]}), why);
  return v;
}

Verdict MatchesReference(const Evidence& evidence, size_t index, std::string_view what,
                         const RowFilter& rows) {
  const Problem& p = evidence.cases[index].problem;
  if (!HasBound(p.dtype)) return NoBoundYet(p.dtype);
  const ReferenceJudge judge(evidence, index);
  Worker worker;
  ForEachRow(p, [&](const Row& row) {
    if (!rows || rows(row)) judge.JudgeRow(row, worker);
  });
  if (!worker.failed()) return worker.verdict;
  const Witness& w = worker.witness;
  Verdict failed = FailAt(p, worker.output, w.index, w.expected, w.observed, w.bound, what);
  Explain(evidence, index, w.index, failed);
  failed.call = index;
  failed.rows = worker.verdict.rows;
  failed.uninformative_rows = worker.verdict.uninformative_rows;
  failed.unconstrained_rows = worker.verdict.unconstrained_rows;
  failed.worst_ratio = worker.verdict.worst_ratio;
  return failed;
}

Verdict SameResult(const Evidence& evidence, size_t a, size_t b, std::string_view what,
                   const RelationOptions& options) {
  const Problem& p = evidence.cases[a].problem;
  if (!options.exact && !HasBound(p.dtype)) return NoBoundYet(p.dtype);
  const RelationJudge judge(evidence, a, b, options);
  Worker worker;
  bool bits_differ = false;
  ForEachRow(p, [&](const Row& row) {
    if (options.rows && !options.rows(row)) return;
    ++worker.verdict.rows;
    judge.JudgeLanes("out", row, &Outcome::out, &Bound::out, worker, bits_differ);
    if (options.compare_lse) {
      judge.JudgeLanes("lse", row, &Outcome::lse, &Bound::lse, worker, bits_differ);
    }
    if (options.compare_weights) {
      judge.JudgeLanes("weights", row, &Outcome::weights, &Bound::weights, worker, bits_differ);
    }
  });
  if (worker.failed()) {
    const Witness& w = worker.witness;
    Verdict failed = FailAt(p, worker.output, w.index, w.expected, w.observed, w.bound, what,
                            "came from the first call");
    // Where rows have moved, the witness's place is that of the first case.
    failed.call = options.to_b ? a : b;
    Explain(evidence, b, options.to_b ? options.to_b(w.index) : w.index, failed);
    if (failed.likely_cause.empty()) Explain(evidence, a, w.index, failed);
    failed.rows = worker.verdict.rows;
    return failed;
  }
  if (bits_differ) {
    worker.verdict.kind = VerdictKind::kMarginal;
    worker.verdict.reason = "bits";
  }
  return worker.verdict;
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
