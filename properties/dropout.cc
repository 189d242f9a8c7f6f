// Dropout with its mask given: after the softmax a kept weight is divided by 1 - p, a dropped one is
// zero, and lse and weights are those before it. Has caught: masks read in another layout than they
// were drawn in, scaling applied before the softmax.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

Case WithPlane(Case c, double probability, uint8_t bit) {
  Dropout dropout;
  dropout.probability = probability;
  dropout.keep.shape = c.problem.WeightsShape();
  dropout.keep.bits.assign(static_cast<size_t>(ElementCount(dropout.keep.shape)), bit);
  c.problem.dropout = std::move(dropout);
  return c;
}

Case WithoutDropout(Case c) {
  c.problem.dropout.reset();
  return c;
}

Derived NoneAndAllKept(const Case& c, const Contract&) {
  return Of(WithoutDropout(c), WithPlane(c, 0, 1));
}

Verdict JudgeAllKept(const Evidence& evidence) {
  return SameResult(evidence, 0, 1, "dropout of probability 0 that keeps everything is none");
}

Derived AllDropped(const Case& original, const Contract&) {
  return Of(WithPlane(original, 0.5, 0));
}

Verdict JudgeAllDropped(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const Seen seen = OutOf(evidence, 0, row, d);
      if (std::isnan(seen.due)) continue;
      if (auto failed = Expect(evidence, 0, "out", row, d, seen.got, 0, 0,
                               "every weight of the row is dropped")) {
        return failed;
      }
    }
    return std::nullopt;
  });
}

Derived NoneAndSome(const Case& original, const Contract&) {
  Case with = EnsureDropout(WithoutScoresOutput(original));
  with.problem.want_lse = with.problem.want_weights = true;
  return Of(WithoutDropout(with), with);
}

Verdict JudgeBefore(const Evidence& evidence) {
  return SameOutputs(evidence, {"lse", "weights"}, "it is due as it is before dropout");
}

std::string NeedsLseOrWeights(const Contract& c) {
  return NeedsLse(c).empty() || NeedsWeights(c).empty()
             ? ""
             : "the contract offers neither lse nor weights";
}

// q = 0 and V one-hot: lane j is key j's weight, or zero where it is dropped.
Derived OneHot(const Case& original, const Contract& contract) {
  const int64_t kv_len = original.problem.kv_len;
  // 64: the output grows with the square.
  if (kv_len == 0 || kv_len > 64) return NotApplicable("no keys, or more than 64");
  Case c = WithoutScoreFeatures(WithoutScoresOutput(WithoutFp8(original)));
  c = WithBias(WithScores(std::move(c), ScoreFamily::kZero), BiasFamily::kZero);
  c.problem.value_dim = kv_len;
  if (!contract.Has(Feature::kValueDim)) c.problem.head_dim = kv_len;
  return Of(EnsureDropout(WithValues(std::move(c), ValueFamily::kOneHot)));
}

Verdict JudgeOneHot(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    for (int64_t j = 0; j < p.kv_len; ++j) {
      const Seen seen = OutOf(evidence, 0, row, j);
      const bool kept = p.dropout->keep.At(row.batch, row.head, row.query, j);
      const bool due = Visible(p, row, j) && kept;
      if ((seen.got > 0) == due && (due || seen.got == 0)) continue;
      return FailAt(p, "out", {row.batch, row.head, row.query, j}, seen.due, seen.got, 0,
                    fmt::format("q is zero and V one-hot, so lane = key: key {} is {}", j,
                                !Visible(p, row, j) ? "hidden"
                                : kept              ? "kept"
                                                    : "dropped"));
    }
    return std::nullopt;
  });
}

constexpr std::array<Property, 4> kProperties = {{
    {"dropout.none_dropped_equals_none", "probability 0 with everything kept equals no dropout",
     Exactness::kBound, Rung::kWithinBound, "dropout", Needs<Feature::kDropout>, NoneAndAllKept,
     JudgeAllKept},
    {"dropout.all_dropped_gives_zero", "with every weight dropped the output is zero",
     Exactness::kExact, Rung::kWithinBound, "dropout", Needs<Feature::kDropout>, AllDropped,
     JudgeAllDropped},
    {"dropout.lse_and_weights_are_those_before_it", "dropout leaves lse and weights",
     Exactness::kBound, Rung::kWithinBound, "dropout, lse or weights",
     AllOf<Needs<Feature::kDropout>, NeedsLseOrWeights>, NoneAndSome, JudgeBefore},
    {"dropout.one_hot_values_read_off_the_kept_set",
     "with q = 0 and V one-hot, exactly the kept visible keys' lanes are above zero",
     Exactness::kExact, Rung::kWithinBound, "dropout", Needs<Feature::kDropout>, OneHot,
     JudgeOneHot},
}};

}  // namespace

std::span<const Property> DropoutProperties() {
  return kProperties;
}

}  // namespace attest
