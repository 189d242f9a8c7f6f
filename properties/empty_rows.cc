// Empty rows: a row that sees no key gives what the contract says, wherever it stands, and leaves
// its neighbours alone; yet a NaN that a row does see is not swept under by the guard for empty
// ones. Has caught: pytorch#103749, pytorch#103963, ik_llama.cpp#2344 (leading rows only).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// The case with an explicit mask, and the same with one row (first, middle or last) or every row of
// one item and head hidden.
Derived BeforeAndAfterEmptying(const Case& original, const Contract&) {
  const Case before = WithoutScoresOutput(WithExplicitMask(original));
  const Problem& p = before.problem;
  if (p.batch * p.q_heads * p.q_len == 0) return NotApplicable("no rows");
  Draw draw = DrawFor(original, 0xE0);
  const Row chosen{draw.Below(p.batch), draw.Below(p.q_heads),
                   draw.Pick(std::vector<int64_t>{0, p.q_len / 2, p.q_len - 1})};
  const bool whole_head = draw.OneIn(4);
  Case after = before;
  size_t flat = 0;
  ForEachRow(p, [&](const Row& row) {
    const bool empty = row.batch == chosen.batch && row.head == chosen.head &&
                       (whole_head || row.query == chosen.query);
    for (int64_t j = 0; j < p.kv_len; ++j, ++flat) {
      if (empty) after.problem.mask->bits[flat] = 0;
    }
  });
  return Of(before, std::move(after));
}

Derived WithEmptyRow(const Case& original, const Contract& contract) {
  Derived both = BeforeAndAfterEmptying(WithoutScoreFeatures(original), contract);
  if (both.cases.empty()) return both;
  both.cases[1].problem.want_lse = true;
  return Of(both.cases[1]);
}

// How far a computed mean of n values may lie from the true one: summing in f32 in any order, one
// division, one rounding to the output type.
double MeanBound(const Array& v, const Row& row, int64_t kv_head, int64_t lane, DType dtype) {
  double sum = 0;
  const int64_t n = v.shape[2];
  for (int64_t j = 0; j < n; ++j) sum += std::abs(v.At(row.batch, kv_head, j, lane));
  const double u = dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
  const double mean = n == 0 ? 0 : sum / static_cast<double>(n);
  const double rounding = TraitsOf(dtype).unit_roundoff * mean + TraitsOf(dtype).min_subnormal;
  return static_cast<double>(n + 4) * u * mean * 1.01 + rounding * 1.01;
}

std::optional<double> PromisedBound(const Evidence& evidence, const Row& row, int64_t lane) {
  const Problem& p = evidence.cases[0].problem;
  switch (evidence.contract.semantics.empty_row) {
    case EmptyRow::kZero:
    case EmptyRow::kNan:
      return 0;
    case EmptyRow::kMeanValue:
      return MeanBound(evidence.oracle.InputsOf(0).v, row, row.head / p.heads_per_kv_head(), lane,
                       p.dtype);
    default:
      return std::nullopt;
  }
}

std::string NeedsEmptyRowPromise(const Contract& c) {
  switch (c.semantics.empty_row) {
    case EmptyRow::kUnspecified:
      return "the contract leaves empty rows unspecified";
    case EmptyRow::kUnmasked:
      return "no bound yet for rows that act as if unmasked";
    default:
      return NeedsMask(c);
  }
}

Verdict JudgeEmptyOut(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const Array& out = evidence.outcomes[0].out;
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail || !IsEmptyRow(p, row)) return;
    ++verdict.rows;
    if (IsUnconstrained(evidence, 0, row) || IsOpenPadding(evidence, 0, row)) {
      ++verdict.unconstrained_rows;
      return;
    }
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const double due = evidence.oracle.ReferenceOf(0).out.At(row.batch, row.head, row.query, d);
      const double got = out.At(row.batch, row.head, row.query, d);
      const auto bound = PromisedBound(evidence, row, d);
      if (!bound || WithinBound(got, due, *bound)) continue;
      verdict = FailAt(p, "out", {row.batch, row.head, row.query, d}, due, got, *bound,
                       "the row is empty and the contract promises another value");
      return;
    }
  });
  return verdict;
}

std::string NeedsEmptyLsePromise(const Contract& c) {
  if (std::string reason = NeedsLse(c); !reason.empty()) return reason;
  if (c.semantics.lse_empty_row == LseEmptyRow::kUnspecified) {
    return "the contract leaves the lse of empty rows unspecified";
  }
  return NeedsMask(c);
}

Verdict JudgeEmptyLse(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const LseEmptyRow promise = evidence.contract.semantics.lse_empty_row;
  const double due = promise == LseEmptyRow::kNan       ? kNaN
                     : promise == LseEmptyRow::kPlusInf ? kInf
                                                        : -kInf;
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail || !IsEmptyRow(p, row)) return;
    ++verdict.rows;
    if (IsUnconstrained(evidence, 0, row) || IsOpenPadding(evidence, 0, row)) {
      ++verdict.unconstrained_rows;
      return;
    }
    const double got = evidence.outcomes[0].lse.At(row.batch, row.head, row.query, 0);
    if (SameBits(got, due)) return;
    verdict = FailAt(p, "lse", {row.batch, row.head, row.query, 0}, due, got, 0,
                     "the row is empty and the contract promises another lse");
  });
  return verdict;
}

Verdict JudgeNeighbours(const Evidence& evidence) {
  const BitPlane before = VisiblePlane(evidence.cases[0].problem);
  const BitPlane after = VisiblePlane(evidence.cases[1].problem);
  const int64_t kv_len = evidence.cases[0].problem.kv_len;
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kMaskForm);
  options.rows = [&](const Row& row) {
    for (int64_t j = 0; j < kv_len; ++j) {
      if (before.At(row.batch, row.head, row.query, j) !=
          after.At(row.batch, row.head, row.query, j)) {
        return false;
      }
    }
    return true;
  };
  return SameResult(evidence, 0, 1, "emptying another row changed this one", options);
}

// One NaN in q, in a visible key, in a visible value of one row that sees something.
Derived WithVisibleNan(const Case& original, const Contract&) {
  Case whole = original;
  whole.problem.dropout.reset();  // a weight that is dropped may take a NaN with it
  const Case c = AsLiteral(whole);
  const Problem& p = c.problem;
  if (p.value_dim == 0 || p.head_dim == 0) return NotApplicable("no lanes");
  std::vector<Row> seeing;
  ForEachRow(p, [&](const Row& row) {
    if (!SeesNoKey(p, row)) seeing.push_back(row);
  });
  if (seeing.empty()) return NotApplicable("every row is empty");
  Draw draw = DrawFor(c, 0x4A4);
  const Row row = draw.Pick(seeing);
  const int64_t key = draw.Pick(VisibleKeys(p, row));
  const int64_t kv_head = row.head / p.heads_per_kv_head();
  const auto poisoned = [&](DataTensor tensor, int64_t head, int64_t position) {
    Array array = c.literals.at(tensor);
    array.At(row.batch, head, position, draw.Below(array.shape[3])) = kNaN;
    return WithData(c, tensor, std::move(array));
  };
  return Of(poisoned(DataTensor::kQ, row.head, row.query), poisoned(DataTensor::kK, kv_head, key),
            poisoned(DataTensor::kV, kv_head, key));
}

std::string NeedsNanPromise(const Contract& c) {
  return c.visible_nan_propagates ? "" : "the contract leaves visible NaN unspecified";
}

Verdict JudgeVisibleNan(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  Verdict verdict;
  for (size_t i = 0; i < evidence.cases.size(); ++i) {
    const Reference& reference = evidence.oracle.ReferenceOf(i);
    ForEachRow(p, [&](const Row& row) {
      if (verdict.kind == VerdictKind::kFail || IsEmptyRow(p, row)) return;
      if (IsOpenPadding(evidence, i, row)) return;
      ++verdict.rows;
      for (int64_t d = 0; d < p.value_dim; ++d) {
        const std::array<int64_t, 4> at{row.batch, row.head, row.query, d};
        const double due = reference.out.At(at[0], at[1], at[2], at[3]);
        const double got = evidence.outcomes[i].out.At(at[0], at[1], at[2], at[3]);
        if (!std::isnan(due) || std::isnan(got)) continue;
        verdict = FailAt(p, "out", at, due, got, 0, "a NaN that the row sees was lost");
        verdict.call = i;
        return;
      }
    });
  }
  return verdict;
}

constexpr std::array<Property, 4> kProperties = {{
    {"empty_rows.out_is_as_promised",
     "a row without visible keys gives the contract's value, wherever it stands", Exactness::kExact,
     Rung::kMaskCorrect, "a mask, empty_row", NeedsEmptyRowPromise, WithEmptyRow, JudgeEmptyOut},
    {"empty_rows.lse_is_as_promised",
     "a row without visible keys has the contract's lse, wherever it stands", Exactness::kExact,
     Rung::kMaskCorrect, "a mask, lse, lse_empty_row", NeedsEmptyLsePromise, WithEmptyRow,
     JudgeEmptyLse},
    {"empty_rows.neighbours_are_untouched", "emptying one row changes no other row",
     Exactness::kBitwise, Rung::kMaskCorrect, "a mask", NeedsMask, BeforeAndAfterEmptying,
     JudgeNeighbours},
    {"empty_rows.visible_nan_comes_through",
     "a NaN in q, in a visible key or in a visible value makes the rows that see it NaN",
     Exactness::kExact, Rung::kWithinBound, "visible_nan_propagates", NeedsNanPromise,
     WithVisibleNan, JudgeVisibleNan},
}};

}  // namespace

std::span<const Property> EmptyRowsProperties() {
  return kProperties;
}

}  // namespace attest
