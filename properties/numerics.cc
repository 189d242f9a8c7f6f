// Numerics: scores and values at the ends of their ranges stay finite and right. Each property puts
// one family of data into whatever case comes; rows whose scores may leave the format say nothing.
// Has caught: running maxima that start at a finite number, rescales that overflow, f16 scores.
#include <array>
#include <cmath>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

template <ScoreFamily kFamily>
Derived WithFamily(const Case& c, const Contract&) {
  return Of({WithScores(WithoutFp8(c), kFamily)});
}

Derived DenormalValues(const Case& c, const Contract&) {
  return Of({WithValues(WithoutFp8(c), ValueFamily::kDenormal)});
}

Verdict JudgeRange(const Evidence& evidence) {
  return MatchesReference(evidence, 0, "scores or values at the end of their range came out wrong");
}

constexpr uint64_t kRaisedSalt = 0x4A15;

// One key's scores raised in some rows and lowered in others, by a step along one lane. V one-hot
// reads its weight off the output.
Derived OneKeyMoved(const Case& original, const Contract& contract) {
  const int64_t kv_len = original.problem.kv_len;
  // 64: the output grows with the square.
  if (kv_len == 0 || kv_len > 64 || original.problem.head_dim == 0) {
    return NotApplicable("no keys or lanes, or more than 64 keys");
  }
  Case c = WithValues(Lively(WithoutScoresOutput(original)), ValueFamily::kOneHot);
  c.problem.dropout.reset();
  c.problem.value_dim = kv_len;
  if (!contract.Has(Feature::kValueDim)) c.problem.head_dim = kv_len;
  c = AsLiteral(c);
  Draw draw = DrawFor(c, kRaisedSalt);
  const int64_t key = draw.Below(kv_len);
  const int64_t lane = draw.Below(c.problem.head_dim);
  Array keys = c.literals.at(DataTensor::kK);
  for (int64_t b = 0; b < keys.shape[0]; ++b)
    for (int64_t h = 0; h < keys.shape[1]; ++h) keys.At(b, h, key, lane) += 1;
  return Of({c, WithData(c, DataTensor::kK, std::move(keys))});
}

Verdict JudgeMonotone(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const int64_t key = DrawFor(evidence.cases[0], kRaisedSalt).Below(p.kv_len);
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    const auto score = [&](size_t i) {
      return evidence.oracle.ReferenceOf(i).scores.At(row.batch, row.head, row.query, key);
    };
    const Seen before = OutOf(evidence, 0, row, key), after = OutOf(evidence, 1, row, key);
    const double change = after.got - before.got;
    const bool raised = score(1) > score(0), lowered = score(1) < score(0);
    const double wrong = raised ? -change : lowered ? change : 0;
    if (wrong <= before.bound + after.bound) return std::nullopt;
    return Expect(evidence, 1, "out", row, key, after.got, before.got, before.bound + after.bound,
                  raised ? "the key's score was raised, and its weight fell"
                         : "the key's score was lowered, and its weight rose",
                  TheFirstCall());
  });
}

template <ScoreFamily kFamily>
constexpr Property Scores(std::string_view id, std::string_view claim) {
  return {id,        claim,           Exactness::kBound,   Rung::kWithinBound,
          "nothing", AlwaysSupported, WithFamily<kFamily>, JudgeRange};
}

constexpr std::array<Property, 9> kProperties = {{
    Scores<ScoreFamily::kHuge>("numerics.huge_scores_stay_right",
                               "scores of +-5e4 and beyond give finite and right results"),
    Scores<ScoreFamily::kVeryNegative>(
        "numerics.very_negative_scores_stay_right",
        "rows whose scores are all below every likely sentinel give right results"),
    Scores<ScoreFamily::kDominant>("numerics.one_dominant_score_takes_all",
                                   "one score far above the others, which underflow, is right"),
    Scores<ScoreFamily::kAscending>("numerics.rising_scores_stay_right",
                                    "scores that rise with the key rescale rightly"),
    Scores<ScoreFamily::kTied>("numerics.tied_scores_share_alike",
                               "scores of two values only give equal weights to equal scores"),
    Scores<ScoreFamily::kSpread>("numerics.spread_scores_stay_right",
                                 "scores spread over +-30 give right results"),
    Scores<ScoreFamily::kDenormal>("numerics.denormal_scores_stay_right",
                                   "subnormal q and k give right results"),
    {"numerics.denormal_values_stay_right", "subnormal values give right results",
     Exactness::kBound, Rung::kWithinBound, "nothing", AlwaysSupported, DenormalValues, JudgeRange},
    {"numerics.a_weight_follows_its_score",
     "raising one key's score never lowers its weight, nor the other way round", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, OneKeyMoved, JudgeMonotone},
}};

}  // namespace

std::span<const Property> NumericsProperties() {
  return kProperties;
}

}  // namespace attest
