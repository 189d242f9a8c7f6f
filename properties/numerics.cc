// Numerics: scores and values at the ends of their ranges stay finite and right. Each property puts
// one family of data into whatever case comes; rows whose scores may leave the format say nothing.
// Has caught: running maxima that start at a finite number, rescales that overflow, f16 scores.
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <string>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

template <ScoreFamily kFamily>
Derived WithFamily(const Case& c, const Contract&) {
  return Of(WithScores(WithoutFp8(c), kFamily));
}

Derived DenormalValues(const Case& c, const Contract&) {
  return Of(WithValues(WithoutFp8(c), ValueFamily::kDenormal));
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
  return Of(c, WithData(c, DataTensor::kK, std::move(keys)));
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

constexpr uint64_t kMeanSalt = 0x3EA4;
constexpr double kWellBelow = 1.0 / 64;  // of the outputs' roundoff: what sums may be off by

// The 16-bit type of the case, else one that the contract has, where sums are kept far more exactly.
std::optional<DType> ShortType(DType preferred, const Contract& contract) {
  for (const DType type : {preferred, DType::kBF16, DType::kF16}) {
    if ((type != DType::kBF16 && type != DType::kF16) || !contract.dtypes.contains(type)) continue;
    const double u = AccumulationRoundoff(contract.NumericsOf(type));
    if (u < TraitsOf(type).unit_roundoff * kWellBelow / 64) return type;
  }
  return std::nullopt;
}

std::string NeedsShortOutputs(const Contract& contract) {
  return ShortType(DType::kF32, contract) ? "" : "no 16-bit outputs of sums that are kept in f32";
}

// Equal scores, and per lane values of one size that differ in their last bit. Weights are then powers of
// two wherever a row sees so many keys, and all that rounds is the store of out.
Derived MeansOfNeighbours(const Case& original, const Contract& contract) {
  const DType type = *ShortType(original.problem.dtype, contract);
  Case c = WithoutKeyOutputs(WithoutScoreFeatures(WithoutFp8(original)));
  c.problem.dtype = type;
  c = WithBias(WithScores(std::move(c), ScoreFamily::kZero), BiasFamily::kZero);
  Draw draw = DrawFor(c, kMeanSalt);
  const double unit = 2 * TraitsOf(type).unit_roundoff;
  Array values(c.problem.VShape());
  for (int64_t lane = 0; lane < values.shape[3]; ++lane) {
    const double size =
        std::ldexp(draw.Percent(50) ? 1 : -1, static_cast<int>(draw.Between(-3, 3)));
    for (int64_t b = 0; b < values.shape[0]; ++b)
      for (int64_t h = 0; h < values.shape[1]; ++h)
        for (int64_t j = 0; j < values.shape[2]; ++j)
          values.At(b, h, j, lane) = size * (draw.Percent(60) ? 1 + unit : 1);
  }
  return Of(WithData(std::move(c), DataTensor::kV, std::move(values)));
}

// One unit of the last place of a value of that size.
double UnitOf(DType type, double value) {
  return 2 * TraitsOf(type).unit_roundoff * std::ldexp(1, std::ilogb(value));
}

// Whether each lane of the row is what cutting off at the last place gives.
bool IsCutOff(const Evidence& evidence, const Row& row) {
  const Problem& p = evidence.cases[0].problem;
  for (int64_t lane = 0; lane < p.value_dim; ++lane) {
    const Seen out = OutOf(evidence, 0, row, lane);
    const double unit = UnitOf(p.dtype, out.due);
    const double lost =
        std::abs(out.due) - std::abs(out.got);  // of one sign, if by less than a unit
    if (!(lost > -unit * kWellBelow && lost < unit)) return false;
  }
  return true;
}

Verdict JudgeStore(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const bool cuts =
      evidence.contract.NumericsOf(p.dtype).output_rounding == OutputRounding::kTruncate;
  const double share = (cuts ? 1 : 0.5) + kWellBelow;
  return JudgeOrdinaryRows(evidence, [&](const Row& row) -> std::optional<Verdict> {
    if (const size_t seen = VisibleKeys(p, row).size(); seen > 64 || !std::has_single_bit(seen)) {
      return std::nullopt;
    }
    for (int64_t lane = 0; lane < p.value_dim; ++lane) {
      const Seen out = OutOf(evidence, 0, row, lane);
      auto wrong =
          Expect(evidence, 0, "out", row, lane, out.got, out.due, share * UnitOf(p.dtype, out.due),
                 "equal weights and values of one size leave but one rounding, to out");
      if (!wrong) continue;
      if (IsCutOff(evidence, row)) {
        wrong->cause_class = "output-rounding";
        wrong->likely_cause = "as if out were cut off instead of rounded";
        wrong->sentence += "; " + wrong->likely_cause;
      }
      return wrong;
    }
    return std::nullopt;
  });
}

template <ScoreFamily kFamily>
constexpr Property Scores(std::string_view id, std::string_view claim) {
  return {id,        claim,           Exactness::kBound,   Rung::kWithinBound,
          "nothing", AlwaysSupported, WithFamily<kFamily>, JudgeRange};
}

constexpr std::array<Property, 10> kProperties = {{
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
    {"numerics.a_mean_is_rounded_once",
     "in 16 bits the mean of 1, 2, 4, ... values under equal scores is rounded to the nearest",
     Exactness::kBound, Rung::kWithinBound, "f16 or bf16, sums in f32", NeedsShortOutputs,
     MeansOfNeighbours, JudgeStore},
}};

}  // namespace

std::span<const Property> NumericsProperties() {
  return kProperties;
}

}  // namespace attest
