#include "properties/harness/judge/compare.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/judge/explain.h"

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
TEST(CompareTest, NanMatchesNothingButNan) {
  EXPECT_FALSE(WithinBound(kNaN, 0.0, 1e300));
  EXPECT_FALSE(WithinBound(0.0, kNaN, 1e300));
  EXPECT_TRUE(WithinBound(kNaN, kNaN, 0));
  EXPECT_FALSE(WithinBound(kInf, 1e300, 1e300));
  EXPECT_FALSE(WithinBound(-kInf, kInf, 1e300));
  EXPECT_TRUE(WithinBound(kInf, kInf, 0));
  EXPECT_TRUE(WithinBound(kNaN, 0.0, kInf)) << "an infinite bound constrains nothing";
  EXPECT_TRUE(WithinBound(1.0, 1.5, 0.5));
  EXPECT_FALSE(WithinBound(1.0, 1.5, 0.49));
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
  EXPECT_EQ(Worst(pass, NoBoundYet(DType::kF16)).kind, VerdictKind::kUnsupported);
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

  void Rerun() {
    cases_[1] = cases_[0];
    outcomes_.clear();
    for (const Case& c : cases_) {
      const Reference r = ComputeReference(c.problem, Materialise(c), contract_.semantics);
      outcomes_.push_back({OutcomeStatus::kComputed, "", {}, false, r.out, r.lse, {}});
    }
  }
  Verdict Judge() {
    Oracle oracle(cases_, contract_);
    return MatchesReference({contract_, cases_, outcomes_, oracle}, 0, "it is wrong");
  }
  Verdict Relate(bool exact) {
    Oracle oracle(cases_, contract_);
    RelationOptions options;
    options.exact = exact;
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

TEST_F(JudgedCase, WithoutABoundOnlyPromisedBitsAreJudged) {
  cases_[0].problem.dtype = DType::kF16;
  Rerun();
  EXPECT_EQ(Judge().kind, VerdictKind::kUnsupported);
  EXPECT_EQ(Relate(false).kind, VerdictKind::kUnsupported);
  EXPECT_EQ(Relate(true).kind, VerdictKind::kPass);
}

// The explainer must recognise the fault it is shown: the reference run under the faulty rule.
TEST_F(JudgedCase, TheExplainerNamesTheFaultyRule) {
  const Problem right = cases_[0].problem;
  const auto explain = [&](auto change) {
    Problem wrong = right;
    change(wrong);
    const Inputs inputs = Materialise(cases_[0]);
    const Reference r = ComputeReference(wrong, inputs, contract_.semantics);
    const Outcome outcome{OutcomeStatus::kComputed, "", {}, false, r.out, r.lse, {}};
    return LikelyCause(right, inputs, outcome, {0, 0, 0}, 1e-5);
  };
  EXPECT_THAT(explain([](Problem& p) { p.causal = false; }), HasSubstr("causal flag were ignored"));
  EXPECT_THAT(explain([](Problem& p) { p.diagonal_offset = {1}; }), HasSubstr("bottom right"));
  EXPECT_EQ(explain([](Problem&) {}), "") << "nothing to explain";
  EXPECT_THAT(explain([](Problem& p) {
                p.causal = false;
                p.mask = BitPlane{{1, 1, 1, 4}, 4, {1, 0, 0, 1}};
              }),
              HasSubstr("key 3, hidden by causality, took part"));
}

}  // namespace
}  // namespace attest
