// Tiling: how the work is cut up shows nowhere. Keys split in two and merged by their LSE give the
// whole; queries alone give what they give together; sizes on both sides of every seam behave
// alike. Has caught: jax#27224 (last partial tile), flashinfer#4051 (merge of two empty parts).
#include <algorithm>
#include <array>
#include <cmath>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

Derived WholeAndParts(const Case& original, const Contract& contract) {
  Case whole = WithoutKeyOutputs(AsLiteral(original));
  whole.problem.want_lse = true;
  whole.problem.sinks.reset();  // each part would count them
  const int64_t kv_len = whole.problem.kv_len;
  const int64_t least = contract.Has(Feature::kZeroSizes) ? 0 : 1;
  if (kv_len < 2 * least) return NotApplicable("too few keys to split");
  const int64_t split = DrawFor(whole, 0x5B).Between(least, kv_len - least);
  return Of(whole, Select(whole, Axis::kKvLen, IndexRange(0, split)),
            Select(whole, Axis::kKvLen, IndexRange(split, kv_len - split)));
}

// One part of a row: what it computed and how far that may be off. Emptiness is the problem's, so
// that a contract's lse for empty rows plays no part in the merge.
struct Part {
  bool empty = true;
  double lse = 0, lse_bound = 0;
};

Part PartOf(const Evidence& evidence, size_t index, const Row& row) {
  Part part;
  part.empty = IsEmptyRow(evidence.cases[index].problem, row);
  part.lse = evidence.outcomes[index].lse.At(row.batch, row.head, row.query, 0);
  part.lse_bound = evidence.oracle.BoundOf(index).WorstOf(row).lse;
  return part;
}

bool IsUsable(const Evidence& evidence, const Row& row) {
  for (size_t i = 0; i < 3; ++i) {
    const Problem& p = evidence.cases[i].problem;
    if (IsUnconstrained(evidence, i, row) || IsOpenPadding(evidence, i, row)) return false;
    if (!IsEmptyRow(p, row) &&
        std::isnan(evidence.oracle.ReferenceOf(i).lse.At(row.batch, row.head, row.query, 0))) {
      return false;
    }
  }
  return true;
}

// out = a o1 + (1 - a) o2 with a = 1 / (1 + e^(lse2 - lse1)). An error e of lse2 - lse1 moves a by
// at most a (1 - a) (e^|e| - 1), which weighs |o1 - o2|; the parts' own errors come in by their
// shares.
std::optional<Verdict> JudgeMergedRow(const Evidence& evidence, const Row& row,
                                      int64_t& uninformative) {
  const Problem& p = evidence.cases[0].problem;
  const Part first = PartOf(evidence, 1, row), second = PartOf(evidence, 2, row);
  if (first.empty && second.empty) return std::nullopt;  // see empty_rows
  const double share = second.empty  ? 1
                       : first.empty ? 0
                                     : 1 / (1 + std::exp(second.lse - first.lse));
  const double slip =
      std::expm1(first.empty || second.empty ? 0 : first.lse_bound + second.lse_bound);
  if (slip > 0.1) ++uninformative;
  // The merge is computed here in double: a difference of two lse, an exp, a division, a sum.
  const double here =
      0x1p-52 *
      (6 + (second.empty || first.empty ? 0 : std::abs(first.lse) + std::abs(second.lse)));
  for (int64_t d = 0; d < p.value_dim; ++d) {
    const auto at = [&](const Array& array) { return array.At(row.batch, row.head, row.query, d); };
    const double o1 = first.empty ? 0 : at(evidence.outcomes[1].out);
    const double o2 = second.empty ? 0 : at(evidence.outcomes[2].out);
    const auto bound = [&](size_t i) {
      return evidence.oracle.BoundOf(i).WorstOf(row).out[static_cast<size_t>(d)];
    };
    const double b1 = bound(1), b2 = bound(2);
    const double merged = share * o1 + (1 - share) * o2;
    const double allowed =
        share * b1 + (1 - share) * b2 + bound(0) +
        std::min(1.0, share * (1 - share) * slip * (1 + slip)) * (std::abs(o1 - o2) + b1 + b2) +
        here * (std::abs(o1) + std::abs(o2));
    const double whole = at(evidence.outcomes[0].out);
    if (std::isnan(at(evidence.oracle.ReferenceOf(0).out))) continue;
    if (WithinBound(whole, merged, allowed)) continue;
    return FailAt(p, "out", {row.batch, row.head, row.query, d}, merged, whole, allowed,
                  "two parts of the keys merged by their lse do not give the whole");
  }
  return std::nullopt;
}

Verdict JudgeMerge(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail) return;
    ++verdict.rows;
    if (!IsUsable(evidence, row)) {
      ++verdict.unconstrained_rows;
      return;
    }
    int64_t uninformative = 0;
    if (auto failed = JudgeMergedRow(evidence, row, uninformative)) verdict = *failed;
    verdict.uninformative_rows += uninformative;
  });
  return verdict;
}

Derived TogetherAndAlone(const Case& original, const Contract&) {
  const Case c = AsLiteral(original);
  if (c.problem.q_len < 2) return NotApplicable("fewer than two queries");
  const int64_t query = DrawFor(c, 0xA1).Below(c.problem.q_len);
  return Of(c, Select(c, Axis::kQLen, {query}));
}

Verdict JudgeAlone(const Evidence& evidence) {
  const int64_t q_len = evidence.cases[0].problem.q_len;
  const int64_t query = DrawFor(evidence.cases[0], 0xA1).Below(q_len);
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kQLen);
  options.rows = [=](const Row& row) { return row.query == query; };
  options.to_b = [](const std::array<int64_t, 4>& i) {
    return std::array<int64_t, 4>{i[0], i[1], 0, i[3]};
  };
  return SameResult(evidence, 0, 1, "a query alone gives another answer than among others",
                    options);
}

// q = 0 and V = 1 make every row of every length exactly one: what a tile's edge adds or drops
// shows.
Derived EverySideOfASeam(const Case& original, const Contract& contract) {
  Draw draw = DrawFor(original, 0x5EA);
  Case plain = WithoutFp8(WithoutKeyOutputs(WithoutScoreFeatures(WithoutHiding(original))));
  plain.storage = {};
  plain.problem.query_lengths.reset();
  plain = WithScores(WithValues(std::move(plain), ValueFamily::kOnes), ScoreFamily::kZero);
  const int64_t tile = draw.Pick(std::vector<int64_t>{4, 8, 16, 32, 64, 128});
  const int64_t limit = contract.limits.max_kv_len;
  std::vector<Case> cases;
  for (const int64_t kv_len : {tile - 1, tile, tile + 1}) {
    if (limit > 0 && kv_len > limit) continue;
    Case c = plain;
    c.problem.batch = std::min<int64_t>(c.problem.batch, 1);
    c.problem.diagonal_offset.clear();
    c.problem.q_len = std::min<int64_t>(c.problem.q_len, 3);
    c.problem.kv_len = kv_len;
    cases.push_back(std::move(c));
  }
  return cases.empty() ? NotApplicable("beyond the contract's limits") : Of(std::move(cases));
}

Verdict JudgeSeam(const Evidence& evidence) {
  Verdict verdict;
  for (size_t i = 0; i < evidence.cases.size(); ++i) {
    verdict = Worst(verdict, MatchesReference(evidence, i,
                                              "q is zero and V is one, so the row should be one; "
                                              "the last tile adds or drops something"));
  }
  return verdict;
}

constexpr std::array<Property, 3> kProperties = {{
    {"tiling.split_keys_merge_to_the_whole",
     "two parts of the keys merged by their lse give the whole, empty parts included",
     Exactness::kBound, Rung::kWithinBound, "lse", NeedsLse, WholeAndParts, JudgeMerge},
    {"tiling.a_query_alone_equals_itself_among_others",
     "one query in a call of its own gives the row it gives among others", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, TogetherAndAlone, JudgeAlone},
    {"tiling.every_seam_sums_to_one",
     "with q = 0 and V = 1 every row is one for kv_len on both sides of a tile's edge",
     Exactness::kBound, Rung::kWithinBound, "nothing", AlwaysSupported, EverySideOfASeam,
     JudgeSeam},
}};

}  // namespace

std::span<const Property> TilingProperties() {
  return kProperties;
}

}  // namespace attest
