#include "properties/harness/judge/oracle.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

namespace attest {
namespace {

Case SmallCase() {
  Case c;
  Problem& p = c.problem;
  p.q_heads = p.kv_heads = 2;
  p.q_len = p.head_dim = p.value_dim = 2;
  p.kv_len = 3;
  c.recipe.scores = ScoreFamily::kNormal;
  c.recipe.values = ValueFamily::kNormal;
  return c;
}

// Whether one oracle gives SmallCase() and the same after `change` one answer.
bool SharesAfter(const std::function<void(Case&)>& change) {
  std::vector<Case> cases = {SmallCase(), SmallCase()};
  change(cases[1]);
  const Contract contract;
  Oracle oracle(cases, contract);
  const bool shares = &oracle.InputsOf(0) == &oracle.InputsOf(1);
  EXPECT_EQ(&oracle.ReferenceOf(0) == &oracle.ReferenceOf(1), shares);
  EXPECT_EQ(&oracle.BoundOf(0) == &oracle.BoundOf(1), shares);
  return shares;
}

TEST(OracleTest, CasesThatOnlyLieElsewhereShareTheirAnswer) {
  EXPECT_TRUE(SharesAfter([](Case&) {}));
  EXPECT_TRUE(SharesAfter([](Case& c) { c.layouts.k = Layout::kGapped; }));
  EXPECT_TRUE(SharesAfter([](Case& c) { c.storage.past = 2; }));
  EXPECT_TRUE(SharesAfter([](Case& c) { c.placement = Placement::kBegin; }));
}

TEST(OracleTest, CasesThatComputeSomethingElseHaveAnAnswerOfTheirOwn) {
  EXPECT_FALSE(SharesAfter([](Case& c) { c.recipe.seed = 2; }));
  EXPECT_FALSE(SharesAfter([](Case& c) { c.problem.causal = true; }));
  EXPECT_FALSE(SharesAfter([](Case& c) { c.problem.want_weights = !c.problem.want_weights; }));
  EXPECT_FALSE(SharesAfter([](Case& c) { c.layouts.v = Layout::kSharedHead; }));
  EXPECT_FALSE(SharesAfter([](Case& c) {
    c.overrides.push_back({DataTensor::kV, {0, 0, 0, 0}, 7.0});
  }));
  EXPECT_FALSE(
      SharesAfter([](Case& c) { c.literals[DataTensor::kQ] = Array(c.problem.QShape(), 1.0); }));
}

}  // namespace
}  // namespace attest
