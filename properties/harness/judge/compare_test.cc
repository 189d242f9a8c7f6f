#include "properties/harness/judge/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/reference/extended_reference.h"
#include "properties/harness/judge/tally.h"

namespace attest {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(CompareTest, SameBitsEquatesZerosAndNans) {
  EXPECT_TRUE(SameBits(0.0, -0.0));
  EXPECT_TRUE(SameBits(kNaN, -kNaN));
  EXPECT_TRUE(SameBits(kInf, kInf));
  EXPECT_FALSE(SameBits(kNaN, 0.0));
  EXPECT_FALSE(SameBits(kInf, -kInf));
  EXPECT_FALSE(SameBits(0x1p-149, 0.0));
}

// A comparison that passes when either side is NaN has hidden real bugs (cubecl#1070).
TEST(CompareTest, SpecialValuesMatchTheirLikeOnly) {
  constexpr double kSubnormal = 0x1p-149;
  struct {
    double observed, expected, bound;
    bool matches;
  } const rows[] = {
      {kNaN, 0.0, 1e300, false},
      {0.0, kNaN, 1e300, false},
      {kNaN, kInf, 1e300, false},
      {kNaN, kNaN, 0, true},
      {-kNaN, kNaN, 0, true},
      {kInf, kInf, 0, true},
      {-kInf, -kInf, 0, true},
      {-kInf, kInf, 1e300, false},
      {kInf, -kInf, 1e300, false},
      {kInf, 1e300, 1e300, false},
      {1e300, kInf, 1e300, false},
      {-0.0, 0.0, 0, true},
      {0.0, -0.0, 0, true},
      {0.0, kSubnormal, 0, false},  // flushed, where nothing was allowed
      {0.0, kSubnormal, kSubnormal, true},
      {-kSubnormal, kSubnormal, kSubnormal, false},
      {1.0, 1.5, 0.5, true},
      {1.0, 1.5, 0.49, false},
      {kNaN, 0.0, kInf, true},  // an infinite bound constrains nothing
      {kInf, 0.0, kInf, true},
      {-kInf, kInf, kInf, true},
      {1.0, 1.5, kNaN, false},  // and a NaN bound allows nothing
      {1.0, 1.0, kNaN, true},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(WithinBound(row.observed, row.expected, row.bound), row.matches)
        << row.observed << " for " << row.expected << " within " << row.bound;
    EXPECT_EQ(Ratio(row.observed, row.expected, row.bound) <= 1, row.matches)
        << row.observed << " for " << row.expected << " within " << row.bound;
  }
}

TEST(CompareTest, CausesAreTold) {
  EXPECT_EQ(CauseOf(kNaN, 1), Cause::kNan);
  EXPECT_EQ(CauseOf(kInf, 1), Cause::kInf);
  EXPECT_EQ(CauseOf(2, 1), Cause::kValue);
  EXPECT_EQ(CauseOf(2, kNaN), Cause::kValue);
  EXPECT_EQ(CauseOf(-kInf, kInf), Cause::kValue);
}

TEST(CompareTest, TheWorstVerdictWinsAndCountsAddUp) {
  Verdict pass = Pass(3), fail = Pass(2);
  fail.kind = VerdictKind::kFail;
  EXPECT_EQ(Worst(pass, fail).kind, VerdictKind::kFail);
  EXPECT_EQ(Worst(fail, pass).rows, 5);
  Verdict marginal = Pass(1);
  marginal.kind = VerdictKind::kMarginal;
  EXPECT_EQ(Worst(pass, marginal).kind, VerdictKind::kMarginal);
  EXPECT_EQ(Worst(marginal, fail).kind, VerdictKind::kFail);
}

// A case of one head with three queries, four keys and its correct outcome, to be spoilt.
class JudgedCase : public ::testing::Test {
 protected:
  JudgedCase() : contract_(*ParseContract(R"({"contract": "attest-1"})")), cases_(2) {
    Problem& p = cases_[0].problem;
    p.q_len = 3;
    p.kv_len = 4;
    p.head_dim = p.value_dim = 2;
    p.causal = true;
    p.want_lse = true;
    cases_[0].recipe = {ScoreFamily::kNormal, ValueFamily::kNormal, BiasFamily::kZero, 11};
    Rerun();
  }

  // Both outcomes as a kernel would store them that errs in nothing but its outputs' rounding.
  void Rerun() {
    cases_[1] = cases_[0];
    outcomes_.clear();
    for (const Case& c : cases_) {
      const Problem& p = c.problem;
      const Reference r = ReferenceFor(p, Materialise(c), contract_);
      outcomes_.push_back({OutcomeStatus::kComputed,
                           "",
                           {},
                           false,
                           Stored(r.out, p.dtype),
                           Stored(r.lse, p.LseDType()),
                           {}});
      if (p.want_weights) outcomes_.back().weights = Stored(r.weights, p.dtype);
      if (p.want_scores) outcomes_.back().scores = Stored(r.asked_scores, p.dtype);
    }
  }
  static Array Stored(Array array, DType dtype) {
    for (double& x : array.values) x = RoundTo(dtype, x);
    return array;
  }
  Verdict Judge(PaddedRows padded = PaddedRows::kLeftOut) {
    Oracle oracle(cases_, contract_);
    return MatchesReference({contract_, cases_, outcomes_, oracle}, 0, "it is wrong", {}, padded);
  }
  Verdict Relate(bool exact, Mapping to_b = {}) {
    Oracle oracle(cases_, contract_);
    RelationOptions options;
    options.exact = exact;
    options.to_b = std::move(to_b);
    return SameResult({contract_, cases_, outcomes_, oracle}, 0, 1, "they differ", options);
  }

  Contract contract_;
  std::vector<Case> cases_;
  std::vector<Outcome> outcomes_;
};

TEST_F(JudgedCase, TheCorrectOutcomePasses) {
  const Verdict v = Judge();
  EXPECT_EQ(v.kind, VerdictKind::kPass) << v.sentence;
  EXPECT_EQ(v.rows, 3);
}

TEST_F(JudgedCase, TheWorstElementIsNamedInTheSentence) {
  outcomes_[0].out.At(0, 0, 1, 0) += 1e-3;
  outcomes_[0].out.At(0, 0, 2, 1) += 1e-1;
  outcomes_[0].out = Stored(outcomes_[0].out, DType::kF32);
  const Verdict v = Judge();
  ASSERT_EQ(v.kind, VerdictKind::kFail);
  EXPECT_EQ(v.output, "out");
  EXPECT_EQ(v.cause, Cause::kValue);
  EXPECT_THAT(v.sentence, HasSubstr("out[batch 0, head 0, query 2, lane 1]"));
  EXPECT_THAT(v.sentence, HasSubstr("the row sees keys 0-2 of 4"));
}

TEST_F(JudgedCase, NanAndAWrongLseFail) {
  outcomes_[0].out.At(0, 0, 0, 0) = kNaN;
  EXPECT_EQ(Judge().cause, Cause::kNan);
  Rerun();
  outcomes_[0].lse.At(0, 0, 0, 0) += 0.01;
  EXPECT_EQ(Judge().output, "lse");
}

TEST_F(JudgedCase, EmptyRowsAreHeldToTheContract) {
  cases_[0].problem.key_lengths = {0};
  Rerun();
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
  outcomes_[0].out.At(0, 0, 0, 0) = 0x1p-149;
  EXPECT_EQ(Judge().kind, VerdictKind::kFail);
  contract_.semantics.empty_row = EmptyRow::kUnspecified;
  EXPECT_EQ(Judge().kind, VerdictKind::kPass) << "what is not promised is not held against anyone";
}

// Rows 1 and 2 are padding, and hold what the kernel likes. They are held to the contract where they
// are asked about, and nowhere else.
TEST_F(JudgedCase, PaddedRowsAreHeldToTheContract) {
  cases_[0].problem.query_lengths = {1};
  const struct {
    PaddedQueryRows promise;
    bool is_packed;
    int64_t rows;
    VerdictKind zeros, others;
  } kRows[] = {
      {PaddedQueryRows::kComputed, false, 3, VerdictKind::kFail, VerdictKind::kFail},
      {PaddedQueryRows::kZero, false, 3, VerdictKind::kPass, VerdictKind::kFail},
      {PaddedQueryRows::kUnwritten, false, 1, VerdictKind::kPass, VerdictKind::kPass},
      {PaddedQueryRows::kUnspecified, false, 1, VerdictKind::kPass, VerdictKind::kPass},
      {PaddedQueryRows::kComputed, true, 1, VerdictKind::kPass, VerdictKind::kPass},
  };
  for (const auto& row : kRows) {
    contract_.padded_query_rows = row.promise;
    cases_[0].storage.packed = row.is_packed;
    Rerun();
    for (int64_t i = 1; i < 3; ++i) {
      for (int64_t d = 0; d < 2; ++d) outcomes_[0].out.At(0, 0, i, d) = 0;
      outcomes_[0].lse.At(0, 0, i, 0) = kNaN;
    }
    EXPECT_EQ(Judge(PaddedRows::kAsPromised).kind, row.zeros);
    EXPECT_EQ(Judge(PaddedRows::kAsPromised).rows, row.rows);
    outcomes_[0].out.At(0, 0, 2, 1) = kNaN;
    EXPECT_EQ(Judge(PaddedRows::kAsPromised).kind, row.others);
    EXPECT_EQ(Judge().kind, VerdictKind::kPass);
    EXPECT_EQ(Judge().rows, 1);
    EXPECT_EQ(Relate(true).kind, VerdictKind::kPass);
    outcomes_[0].out.At(0, 0, 0, 0) += 1;
    EXPECT_EQ(Judge().kind, VerdictKind::kFail) << "a row that is no padding";
    EXPECT_EQ(Relate(true).kind, VerdictKind::kFail);
  }
}

TEST_F(JudgedCase, ScoresAreJudgedInEveryRowAndMode) {
  Problem& p = cases_[0].problem;
  p.softcap = 2;
  p.bias = BitPlane{{1, 1, 1, 4}, 4, {1, 0, 1, 1}};
  for (const ScoreMode mode :
       {ScoreMode::kRaw, ScoreMode::kCapped, ScoreMode::kBiased, ScoreMode::kWeights}) {
    for (const int64_t keys : {4, 0}) {  // 0: every row is empty
      p.want_scores = mode;
      p.key_lengths = {keys};
      Rerun();
      ASSERT_EQ(Judge().kind, VerdictKind::kPass) << Judge().sentence;
      ASSERT_EQ(Relate(true).kind, VerdictKind::kPass);
      for (double& spoilt : outcomes_[0].scores.values) {
        const double right = spoilt;
        spoilt = std::isinf(right) ? -1e4 : right + 0.5;
        const Verdict v = Judge();
        ASSERT_EQ(v.kind, VerdictKind::kFail) << static_cast<int>(mode) << " " << keys;
        EXPECT_EQ(v.output, "scores");
        EXPECT_THAT(v.sentence, HasSubstr("scores[batch 0, head 0, query"));
        EXPECT_EQ(Relate(true).output, "scores");
        spoilt = right;
      }
    }
  }
}

TEST_F(JudgedCase, ARowWithNothingButASinkIsARowLikeAnyOther) {
  cases_[0].problem.key_lengths = {0};
  cases_[0].problem.sinks = {1.5};
  Rerun();
  EXPECT_EQ(outcomes_[0].lse.At(0, 0, 2, 0), 1.5);
  EXPECT_EQ(Judge().kind, VerdictKind::kPass) << Judge().sentence;
  outcomes_[0].lse.At(0, 0, 2, 0) = -kInf;
  EXPECT_EQ(Judge().output, "lse");
  Rerun();
  contract_.semantics.empty_row = EmptyRow::kUnspecified;
  outcomes_[0].out.At(0, 0, 1, 0) = 0.25;
  EXPECT_EQ(Judge().kind, VerdictKind::kFail) << "no row is empty";
}

TEST_F(JudgedCase, TheSentenceKnowsWhatShapesVisibility) {
  Problem& p = cases_[0].problem;
  p.prefix_lengths = {3};
  p.documents = Documents{{7, 8, 8}, {7, 7, 8, 8}};
  p.block_mask = BlockMask{1, 4, {{1, 1, 3, 1}, 4, {1, 1, 1}}};
  p.query_lengths = {1};
  const auto sentence = [&](int64_t query) {
    return FailAt(p, "out", {0, 0, query, 0}, 1, 2, 0, "so").sentence;
  };
  EXPECT_THAT(sentence(0), HasSubstr("keys 0-1 of 4 (document 7, prefix 3, tiles of 1 x 4): so"));
  EXPECT_THAT(sentence(2), HasSubstr("key 2 of 4 (document 8, prefix 3, tiles of 1 x 4, padding: "
                                     "query length 1): so"));
}

TEST_F(JudgedCase, AChangedBitFailsAPromiseAndIsMarginalWithoutOne) {
  EXPECT_EQ(Relate(true).kind, VerdictKind::kPass);
  double& x = outcomes_[1].out.At(0, 0, 1, 1);
  x = std::nextafter(static_cast<float>(x), 1e9f);
  EXPECT_EQ(Relate(true).kind, VerdictKind::kFail);
  const Verdict marginal = Relate(false);
  EXPECT_EQ(marginal.kind, VerdictKind::kMarginal);
  EXPECT_EQ(marginal.reason, "bits");
  x += 1;
  EXPECT_EQ(Relate(false).kind, VerdictKind::kFail);
}

// Nowhere may an error hide: not in the second batch item, the last head, row, lane or key, the lse,
// the weights, or a weight that a hidden key should not have.
TEST_F(JudgedCase, EveryWrongElementIsFound) {
  Problem& p = cases_[0].problem;
  p.batch = p.q_heads = 2;
  p.value_dim = 3;
  p.want_weights = true;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    p.dtype = dtype;
    Rerun();
    ASSERT_EQ(Judge().kind, VerdictKind::kPass) << Name(dtype) << ": " << Judge().sentence;
    for (const auto& [name, output] : {std::pair{"out", &Outcome::out},
                                       {"lse", &Outcome::lse},
                                       {"weights", &Outcome::weights}}) {
      for (size_t i = 0; i < (outcomes_[0].*output).values.size(); ++i) {
        double& spoilt = (outcomes_[0].*output).values[i];
        const double right = spoilt;
        spoilt = RoundTo(dtype, right + 0.5);
        const Verdict v = Judge();
        ASSERT_EQ(v.kind, VerdictKind::kFail) << Name(dtype) << " " << name << " " << i;
        EXPECT_EQ(v.output, name);
        const auto& at = v.witness->index;
        EXPECT_EQ((outcomes_[0].*output).Index(at[0], at[1], at[2], at[3]), i);
        spoilt = right;
      }
    }
  }
}

// An output moved by `share` of its worst-case bound, in the row whose cheap bound is the widest by
// comparison and must not be what decides.
TEST_F(JudgedCase, TheBoundIsWhereTheVerdictTurns) {
  cases_[0].problem.kv_len = 40;
  cases_[0].problem.head_dim = 8;
  cases_[0].problem.value_dim = 1;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const double share : {0.98, 1.02}) {
      cases_[0].problem.dtype = dtype;
      Rerun();
      Oracle oracle(cases_, contract_);
      ErrorBound& bound = oracle.BoundOf(0);
      const auto width = [&](const Row& row) {
        return bound.CheapOf(row).out[0] / bound.WorstOf(row).out[0];
      };
      Row widest;
      ForEachRow(cases_[0].problem, [&](const Row& row) {
        if (width(row) > width(widest)) widest = row;
      });
      ASSERT_GT(width(widest), 1.1) << Name(dtype) << ": cheap W is no wider here";
      const double due = oracle.ReferenceOf(0).out.At(0, 0, widest.query, 0);
      outcomes_[0].out.At(0, 0, widest.query, 0) =
          RoundTo(dtype, due + share * bound.WorstOf(widest).out[0]);
      const Verdict v = Judge();
      EXPECT_EQ(v.kind == VerdictKind::kFail, share > 1) << Name(dtype) << " " << v.worst_ratio;
    }
  }
}

TEST_F(JudgedCase, TwoResultsMayDifferByBothTheirBounds) {
  for (const double share : {1.9, 2.1}) {
    Rerun();
    Oracle oracle(cases_, contract_);
    const double bound = oracle.BoundOf(0).WorstOf({0, 0, 2}).out[1];
    outcomes_[1].out.At(0, 0, 2, 1) = outcomes_[0].out.At(0, 0, 2, 1) + share * bound;
    EXPECT_EQ(Relate(false).kind, share < 2 ? VerdictKind::kMarginal : VerdictKind::kFail);
  }
}

TEST_F(JudgedCase, WhatItsTypeCannotHoldFails) {
  cases_[0].recipe.values = ValueFamily::kOnes;
  cases_[0].problem.want_weights = true;
  cases_[0].problem.dtype = DType::kF16;
  Rerun();
  ASSERT_EQ(Judge().kind, VerdictKind::kPass);
  outcomes_[0].out.At(0, 0, 2, 1) = 1 + 0x1p-20;  // well within any bound
  const Verdict v = Judge();
  EXPECT_EQ(v.kind, VerdictKind::kFail);
  EXPECT_EQ(v.cause, Cause::kValue);
  EXPECT_EQ(v.output, "out");
  EXPECT_THAT(v.sentence, HasSubstr("out[batch 0, head 0, query 2, lane 1]"));
  EXPECT_THAT(v.sentence, HasSubstr("not representable in f16"));
  Rerun();
  outcomes_[0].weights.At(0, 0, 0, 0) = 1 - 0x1p-20;
  EXPECT_EQ(Judge().output, "weights");
  Rerun();
  outcomes_[0].lse.At(0, 0, 1, 0) *= 1 + 0x1p-40;
  EXPECT_EQ(Judge().kind, VerdictKind::kPass) << "an lse may have been converted from base 2";
}

TEST_F(JudgedCase, FlushedSubnormalsPassWhereDeclared) {
  Problem& p = cases_[0].problem;
  p.kv_len = p.q_len = 1;
  cases_[0].overrides.push_back({DataTensor::kV, {0, 0, 0, 1}, 0x1p-140});
  for (const bool flushes : {true, false}) {
    contract_.numerics[DType::kF32].flush_to_zero = flushes;
    Rerun();
    ASSERT_EQ(outcomes_[0].out.At(0, 0, 0, 1), 0x1p-140);
    EXPECT_EQ(Judge().kind, VerdictKind::kPass);
    outcomes_[0].out.At(0, 0, 0, 1) = -0.0;
    EXPECT_EQ(Judge().kind, flushes ? VerdictKind::kPass : VerdictKind::kFail);
  }
}

TEST_F(JudgedCase, RepeatedNansAndInfinitiesAreTheSameBits) {
  for (Outcome& outcome : outcomes_) {
    outcome.out.At(0, 0, 1, 0) = kNaN;
    outcome.lse.At(0, 0, 1, 0) = -kInf;
  }
  EXPECT_EQ(Relate(true).kind, VerdictKind::kPass);
  EXPECT_EQ(Relate(false).kind, VerdictKind::kPass);
  outcomes_[1].out.At(0, 0, 1, 0) = 0;
  EXPECT_EQ(Relate(false).kind, VerdictKind::kFail);
}

TEST_F(JudgedCase, SignedZerosAreTheSame) {
  cases_[0].recipe.values = ValueFamily::kSignedZeros;
  Rerun();
  for (double& x : outcomes_[0].out.values) x = -0.0;
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
  EXPECT_EQ(Relate(true).kind, VerdictKind::kPass);
}

TEST_F(JudgedCase, InfinitiesFailWhereNothingOverflows) {
  outcomes_[0].out.At(0, 0, 1, 1) = -kInf;
  EXPECT_EQ(Judge().cause, Cause::kInf);
  Rerun();
  outcomes_[0].lse.At(0, 0, 1, 0) = kInf;
  EXPECT_EQ(Judge().cause, Cause::kInf);
  EXPECT_EQ(Relate(true).cause, Cause::kInf) << "though the infinity came first";
}

TEST_F(JudgedCase, WhatMayOverflowIsCountedAndNotJudged) {
  cases_[0].overrides.push_back({DataTensor::kQ, {0, 0, 2, 0}, 1e38});
  cases_[0].overrides.push_back({DataTensor::kK, {0, 0, 2, 0}, 1e38});
  Rerun();
  outcomes_[0].out.At(0, 0, 2, 0) = kNaN;
  outcomes_[0].lse.At(0, 0, 2, 0) = kInf;
  const Verdict v = Judge();
  EXPECT_EQ(v.kind, VerdictKind::kPass) << v.sentence;
  EXPECT_GE(v.unconstrained_rows, 1);
}

TEST_F(JudgedCase, NoBitsStayWhereAFiniteFillerMightOutweighTheRow) {
  cases_[0].overrides.push_back({DataTensor::kQ, {0, 0, 0, 0}, 1e16});
  cases_[0].overrides.push_back({DataTensor::kK, {0, 0, 0, 0}, -1e16});
  Rerun();
  outcomes_[1].out.At(0, 0, 0, 0) += 1;
  EXPECT_EQ(Relate(true).kind, VerdictKind::kFail);
  contract_.masking_value = MaskingValue{-1e30, false};
  EXPECT_EQ(Relate(true).kind, VerdictKind::kPass);
  EXPECT_EQ(Relate(true).unconstrained_rows, 1);
  outcomes_[1].out.At(0, 0, 1, 0) += 1;
  EXPECT_EQ(Relate(true).kind, VerdictKind::kFail) << "row 1 sees a score that no filler outweighs";
}

TEST_F(JudgedCase, VisibleNanIsDueWherePromised) {
  cases_[0].overrides.push_back({DataTensor::kV, {0, 0, 1, 0}, kNaN});  // rows 1 and 2 see it
  contract_.visible_nan_propagates = true;
  Rerun();
  EXPECT_EQ(Judge().kind, VerdictKind::kPass) << Judge().sentence;
  outcomes_[0].out.At(0, 0, 2, 0) = 0;
  EXPECT_EQ(Judge().kind, VerdictKind::kFail);
  EXPECT_EQ(Judge().cause, Cause::kValue);
  contract_.visible_nan_propagates = false;
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
  EXPECT_EQ(Judge().unconstrained_rows, 2);
  outcomes_[0].out.At(0, 0, 0, 0) = kNaN;
  EXPECT_EQ(Judge().cause, Cause::kNan) << "row 0 does not see it";
}

// A replay shows the witness's row of the witness's call, which had better be the wrong one.
TEST_F(JudgedCase, WhereRowsHaveMovedTheWrongSideIsShownInItsOwnPlace) {
  // So that all queries have the same result, but for lse.
  cases_[0].problem.kv_len = 1;
  cases_[0].problem.causal = false;
  const auto turned = [](const std::array<int64_t, 4>& i) {
    return std::array<int64_t, 4>{i[0], i[1], 2 - i[2], i[3]};
  };
  for (const size_t wrong : {0, 1}) {
    Rerun();
    for (Outcome& outcome : outcomes_) outcome.lse = {};
    ASSERT_EQ(Relate(true, turned).kind, VerdictKind::kPass);
    outcomes_[wrong].out.At(0, 0, 0, 1) += 1;
    const Verdict v = Relate(true, turned);
    ASSERT_EQ(v.kind, VerdictKind::kFail);
    EXPECT_EQ(v.call, wrong);
    EXPECT_EQ(v.witness->index, (std::array<int64_t, 4>{0, 0, 0, 1}));
    EXPECT_EQ(v.witness->observed, outcomes_[wrong].out.At(0, 0, 0, 1));
    EXPECT_THAT(v.sentence, HasSubstr("out[batch 0, head 0, query 0, lane 1] is"));
    EXPECT_THAT(v.sentence, HasSubstr(wrong == 0 ? "query 2, lane 1] of a derived call"
                                                 : "query 2, lane 1] of the first call"));
  }
}

TEST_F(JudgedCase, NumbersThatDifferAreShownAsDifferent) {
  cases_[0].problem.dtype = DType::kF64;
  Rerun();
  double& value = outcomes_[1].out.At(0, 0, 1, 1);
  const double before = value;
  value = std::nextafter(value, 1e9);
  const Verdict v = Relate(true);
  ASSERT_EQ(v.kind, VerdictKind::kFail);
  EXPECT_THAT(v.sentence, HasSubstr(fmt::format("{:.17g}", before)));
  EXPECT_THAT(v.sentence, HasSubstr(fmt::format("{:.17g}", value)));
}

TEST_F(JudgedCase, WhereRowsStayTheWrongSideIsShownToo) {
  for (const size_t wrong : {0, 1}) {
    Rerun();
    outcomes_[wrong].out.At(0, 0, 1, 1) += 1;
    const Verdict v = Relate(true);
    ASSERT_EQ(v.kind, VerdictKind::kFail);
    EXPECT_EQ(v.call, wrong);
    EXPECT_EQ(v.witness->observed, outcomes_[wrong].out.At(0, 0, 1, 1));
    EXPECT_THAT(v.sentence,
                HasSubstr(wrong == 0 ? "came from a derived call" : "came from the first call"));
  }
}

TEST_F(JudgedCase, EmptyTensorsAreJudgedForWhatIsThere) {
  const Problem whole = cases_[0].problem;
  cases_[0].problem.q_len = 0;
  Rerun();
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
  EXPECT_EQ(Judge().rows, 0);

  cases_[0].problem = whole;
  cases_[0].problem.value_dim = 0;
  Rerun();
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
  outcomes_[0].lse.At(0, 0, 2, 0) += 0.5;
  EXPECT_EQ(Judge().output, "lse");

  cases_[0].problem = whole;
  cases_[0].problem.kv_len = 0;
  cases_[0].problem.want_weights = true;
  Rerun();
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
  EXPECT_EQ(Judge().rows, 3);
  outcomes_[0].out.At(0, 0, 2, 1) = 1;
  EXPECT_EQ(Judge().kind, VerdictKind::kFail);

  cases_[0].problem = whole;
  cases_[0].problem.head_dim = 0;
  Rerun();
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
  outcomes_[0].out.At(0, 0, 2, 1) += 1;
  EXPECT_EQ(Judge().kind, VerdictKind::kFail);
}

}  // namespace
}  // namespace attest
