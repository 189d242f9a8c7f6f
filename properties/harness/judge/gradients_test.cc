#include "properties/harness/judge/gradients.h"

#include <limits>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/reference/gradient_row.h"

namespace attest {
namespace {

using testing::HasSubstr;

// Two query heads over one kv head, two rows, three keys of which the last is hidden by its length.
Case GradientCase() {
  Case c;
  Problem& p = c.problem;
  p.q_heads = 2;
  p.q_len = 2;
  p.kv_len = 3;
  p.head_dim = p.value_dim = 2;
  p.key_lengths = {2};
  p.want_gradients = true;
  c.recipe = {ScoreFamily::kNormal, ValueFamily::kNormal, BiasFamily::kZero, 5,
              ValueFamily::kNormal};
  return c;
}

class GradientJudgeTest : public testing::Test {
 protected:
  // Copies of `c` with the gradients of the reference, before a test spoils them.
  void Prepare(const Case& c, size_t copies = 1) {
    cases_.assign(copies, c);
    oracle_ = std::make_unique<Oracle>(cases_, contract_);
    for (size_t n = 0; n < copies; ++n) {
      Outcome& outcome = outcomes_.emplace_back();
      outcome.status = OutcomeStatus::kComputed;
      const Gradient& gradient = oracle_->GradientOf(n);
      outcome.dq = gradient.dq;
      outcome.dk = gradient.dk;
      outcome.dv = gradient.dv;
      outcome.dbias = gradient.dbias;
      outcome.dsink = gradient.dsink;
    }
  }
  Evidence evidence() { return {contract_, cases_, outcomes_, *oracle_}; }

  const Contract contract_ = *ParseContract(R"({"contract": "attest-1"})");
  std::vector<Case> cases_;
  std::vector<Outcome> outcomes_;
  std::unique_ptr<Oracle> oracle_;
};

TEST_F(GradientJudgeTest, TheReferencePassesAndRowsAndKeysAreCounted) {
  Prepare(GradientCase());
  const Verdict verdict = MatchesGradient(evidence(), 0, "why");
  EXPECT_EQ(verdict.kind, VerdictKind::kPass) << verdict.sentence;
  EXPECT_EQ(verdict.rows, 4 + 3 + 3);  // of dq, dk and dv
  EXPECT_EQ(verdict.unconstrained_rows, 0);
}

TEST_F(GradientJudgeTest, AWrongKeySaysWhoSeesIt) {
  Prepare(GradientCase());
  outcomes_[0].dk.At(0, 0, 1, 1) += 1;
  const Verdict verdict = MatchesGradient(evidence(), 0, "why");
  EXPECT_EQ(verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(verdict.output, "dk");
  EXPECT_EQ(verdict.witness->index, (GradientIndex{0, 0, 1, 1}));
  EXPECT_THAT(verdict.sentence, HasSubstr("dk[batch 0, kv head 0, key 1, lane 1] is "));
  EXPECT_THAT(verdict.sentence, HasSubstr("the key is seen by 4 of 4 rows"));
  EXPECT_EQ(verdict.cause_class, "");
}

TEST_F(GradientJudgeTest, AHiddenKeyIsDueExactlyZero) {
  Prepare(GradientCase());
  outcomes_[0].dv.At(0, 0, 2, 0) = 1e-300;
  const Verdict verdict = MatchesGradient(evidence(), 0, "why");
  EXPECT_EQ(verdict.kind, VerdictKind::kFail);
  EXPECT_THAT(verdict.sentence, HasSubstr("bit for bit; no row sees the key"));
}

TEST_F(GradientJudgeTest, AFaultyRuleThatGivesWhatCameOutIsNamed) {
  Prepare(GradientCase());
  for (double& x : outcomes_[0].dk.values) x /= cases_[0].problem.EffectiveScale();
  const Verdict verdict = MatchesGradient(evidence(), 0, "why");
  EXPECT_EQ(verdict.cause_class, "gradient-scale");
  EXPECT_EQ(verdict.likely_cause, "as if the scale were left out of dk");
}

// A backward pass that makes weights of its own, as one that is not given the lse must, and forgets the sinks in them;
// D is that of the out that it was given.
TEST_F(GradientJudgeTest, AFaultInASoftmaxOfTheBackwardPassItselfIsNamed) {
  Case c = GradientCase();
  c.problem.sinks = {0.5, -1};
  Prepare(c);
  Problem seen = c.problem;
  seen.sinks.reset();
  const Inputs& inputs = oracle_->InputsOf(0);
  Reference own = ComputeReference(seen, inputs, {});
  own.out = oracle_->ReferenceOf(0).out;
  const Gradient wrong = ComputeGradient(seen, inputs, own, {});
  outcomes_[0].dq = wrong.dq;
  outcomes_[0].dk = wrong.dk;
  outcomes_[0].dv = wrong.dv;
  const Verdict verdict = MatchesGradient(evidence(), 0, "why");
  EXPECT_EQ(verdict.cause_class, "sinks-ignored");
  EXPECT_EQ(verdict.likely_cause,
            "as if in the backward pass the sinks were ignored, with a softmax of its own");
}

TEST_F(GradientJudgeTest, FaultsOfTheBackwardPassAloneAreNamed) {
  Case c = GradientCase();
  c.problem.kv_heads = 2;
  c.problem.q_heads = 4;
  c.problem.value_dim = 3;
  c.problem.dropout = Dropout{0.25, BitPlane{{1, 4, 2, 3}, 4, std::vector<uint8_t>(24, 1)}};
  const auto class_of = [&](const RowChange& change) {
    outcomes_.clear();
    Prepare(c);
    const Gradient wrong = ComputeChangedGradient(c.problem, oracle_->InputsOf(0),
                                                  oracle_->ReferenceOf(0), {}, change);
    outcomes_[0].dq = wrong.dq;
    outcomes_[0].dk = wrong.dk;
    outcomes_[0].dv = wrong.dv;
    return MatchesGradient(evidence(), 0, "why").cause_class;
  };
  const auto set_scores = [](GradientRow& row) {
    for (GradientPair& pair : row.pairs) pair.SetScores(pair.weight * (pair.dweight - row.delta));
  };
  EXPECT_EQ(class_of([](const Row& at, GradientRow& row) { row.kv_head = at.head % 2; }),
            "gradient-kv-head");
  EXPECT_EQ(class_of([&](const Row&, GradientRow& row) {
              for (GradientPair& pair : row.pairs) pair.dweight *= 0.25 * 0.75;
              set_scores(row);
            }),
            "dropout-scale");
  EXPECT_EQ(class_of([&](const Row&, GradientRow& row) {
              row.delta *= 0.3;
              set_scores(row);
            }),
            "gradient-delta");
  EXPECT_EQ(class_of([&](const Row& at, GradientRow& row) {
              const double* dout = LineOf(oracle_->InputsOf(0).dout, at.batch, at.head, at.query);
              for (GradientPair& pair : row.pairs) {
                const double* v = LineOf(oracle_->InputsOf(0).v, at.batch, at.head / 2, pair.key);
                pair.dweight -= pair.kept * Wide{dout[2]} * v[2];
              }
              set_scores(row);
            }),
            "gradient-lanes");
  EXPECT_EQ(class_of([](const Row&, GradientRow& row) {
              for (GradientPair& pair : row.pairs) {
                pair.weight = 1;
                pair.SetScores(0);
              }
            }),
            "gradient-split");
}

TEST_F(GradientJudgeTest, ARuleThatOneOutputAloneFollowsSaysSo) {
  Prepare(GradientCase());
  const Gradient wrong =
      ComputeChangedGradient(cases_[0].problem, oracle_->InputsOf(0), oracle_->ReferenceOf(0), {},
                             [](const Row&, GradientRow& row) {
                               for (GradientPair& pair : row.pairs)
                                 pair.SetScores(pair.weight * pair.dweight);
                             });
  outcomes_[0].dk = wrong.dk;
  EXPECT_EQ(MatchesGradient(evidence(), 0, "why").likely_cause,
            "as if D = dout . out were left out, for dk alone");
}

TEST_F(GradientJudgeTest, AFactorAndZerosAreNamed) {
  Prepare(GradientCase());
  for (double& x : outcomes_[0].dv.values) x *= 0.5;
  EXPECT_EQ(MatchesGradient(evidence(), 0, "why").likely_cause,
            "as if dv were multiplied by 0.5 (1 / the query heads of a kv head)");
  for (double& x : outcomes_[0].dv.values) x = 0;
  EXPECT_EQ(MatchesGradient(evidence(), 0, "why").likely_cause, "dv is 0 everywhere");
}

TEST_F(GradientJudgeTest, WhatWasInMemoryAndRowsThatAreNotFiniteAreNamed) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto lose_row_1 = [&] {
    for (const int64_t head : {0, 1}) outcomes_[0].dq.At(0, head, 1, 0) = kNan;
    return MatchesGradient(evidence(), 0, "why").cause_class;
  };
  Case c = GradientCase();
  c.recipe.dout = ValueFamily::kSignedZeros;
  Prepare(c);
  outcomes_[0].dk.values[1] = 3;
  EXPECT_EQ(MatchesGradient(evidence(), 0, "why").cause_class, "gradient-uninitialised");
  outcomes_.clear();
  c = GradientCase();
  c.problem.softcap = 2;
  c.problem.key_lengths.reset();
  c.problem.mask = BitPlane{{1, 1, 2, 3}, 4, {1, 1, 1, 0, 0, 0}};
  Prepare(c);
  EXPECT_EQ(lose_row_1(), "empty-row");
  outcomes_.clear();
  c.problem.mask->bits = {1, 1, 1, 1, 0, 1};
  Prepare(c);
  EXPECT_EQ(lose_row_1(), "hidden-before-softcap");
}

TEST_F(GradientJudgeTest, PaddedRowsOfDqAreNotLookedAt) {
  Case c = GradientCase();
  c.problem.query_lengths = {1};
  Prepare(c);
  outcomes_[0].dq.At(0, 1, 1, 0) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(MatchesGradient(evidence(), 0, "why").kind, VerdictKind::kPass);
}

TEST_F(GradientJudgeTest, AFaultyGradientOfASharedBiasIsNamedAndSaysWhoSharesIt) {
  Case c = GradientCase();
  c.problem.bias = BitPlane{{1, 1, 2, 3}, 4, {1, 1, 1, 0, 1, 1}};
  Prepare(c);
  EXPECT_EQ(MatchesGradient(evidence(), 0, "why").rows, 4 + 3 + 3 + 2);
  // That of the last head alone.
  Inputs inputs = Materialise(c);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t d = 0; d < 2; ++d) inputs.dout.At(0, 0, i, d) = 0;
  outcomes_[0].dbias = ComputeGradient(c.problem, inputs, oracle_->ReferenceOf(0), {}).dbias;
  const Verdict verdict = MatchesGradient(evidence(), 0, "why");
  EXPECT_EQ(verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(verdict.output, "dbias");
  EXPECT_THAT(verdict.sentence, HasSubstr("dbias[batch 0, every head, query 0, key "));
  EXPECT_THAT(verdict.sentence, HasSubstr("2 of the 2 pairs that share it are visible"));
  EXPECT_EQ(verdict.cause_class, "gradient-of-shared-bias");
}

TEST_F(GradientJudgeTest, AGradientThatTheContractDoesNotOfferIsNotLookedAt) {
  Case c = GradientCase();
  c.problem.sinks = {0.5, 1};
  Prepare(c);
  outcomes_[0].dsink.values[1] *= -1;
  const Verdict verdict = MatchesGradient(evidence(), 0, "why");
  EXPECT_EQ(verdict.kind, VerdictKind::kFail);
  EXPECT_THAT(verdict.sentence, HasSubstr("dsink[head 1]"));
  outcomes_[0].dsink = {};
  EXPECT_EQ(MatchesGradient(evidence(), 0, "why").kind, VerdictKind::kPass);
}

TEST_F(GradientJudgeTest, ARelationKnowsBitsAndBounds) {
  Prepare(GradientCase(), 2);
  double& x = outcomes_[1].dq.At(0, 0, 1, 0);
  x *= 1 + 1e-9;
  EXPECT_EQ(SameGradient(evidence(), 0, 1, "why").kind, VerdictKind::kMarginal);
  EXPECT_EQ(SameGradient(evidence(), 0, 1, "why", {.exact = true}).kind, VerdictKind::kFail);
  x += 1;
  const Verdict verdict = SameGradient(evidence(), 0, 1, "why");
  EXPECT_EQ(verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(verdict.call, 1u);
  EXPECT_THAT(verdict.sentence, HasSubstr("the row sees 2 of 3 keys"));
}

}  // namespace
}  // namespace attest
