#include "properties/harness/runner/conclude.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using testing::HasSubstr;

constexpr char kProperty[] = "family.claim";

PropertyResult ResultWith(std::map<VerdictKind, int64_t> cases) {
  PropertyResult result;
  result.property = kProperty;
  result.cases = std::move(cases);
  return result;
}

Finding FindingOf(const char* property, VerdictKind kind) {
  Finding finding;
  finding.signature.property = property;
  finding.verdict.kind = kind;
  return finding;
}

VerdictKind Concluded(PropertyResult result, const RunFacts& facts = {}) {
  Conclude(facts, result);
  return result.verdict;
}

TEST(Conclude, OnlyPassesMakeAPass) {
  EXPECT_EQ(Concluded(ResultWith({{VerdictKind::kPass, 3}})), VerdictKind::kPass);
}

TEST(Conclude, UnsupportedCasesBesidePassesLeaveAPass) {
  EXPECT_EQ(Concluded(ResultWith({{VerdictKind::kPass, 3}, {VerdictKind::kUnsupported, 90}})),
            VerdictKind::kPass);
}

TEST(Conclude, NothingRunIsNeverAPass) {
  EXPECT_EQ(Concluded(ResultWith({})), VerdictKind::kInconclusive);
}

TEST(Conclude, AClaimThatFitNoCaseSaysWhy) {
  PropertyResult result = ResultWith({});
  RunFacts facts;
  facts.not_applicable_reasons = {{"no hidden key", 5}, {"no row", 2}};
  Conclude(facts, result);
  EXPECT_EQ(result.verdict, VerdictKind::kInconclusive);
  EXPECT_THAT(result.reason, HasSubstr("no hidden key"));
}

TEST(Conclude, GivingUpIsNoPassAndSaysHowFarItCame) {
  PropertyResult result = ResultWith({{VerdictKind::kPass, 12}});
  result.wanted = 300;
  result.not_applicable = 3000;
  RunFacts facts;
  facts.gave_up = true;
  facts.not_applicable_reasons = {{"no sink", 3000}};
  Conclude(facts, result);
  EXPECT_EQ(result.verdict, VerdictKind::kInconclusive);
  EXPECT_THAT(result.reason, HasSubstr("12 of 300"));
  EXPECT_THAT(result.reason, HasSubstr("no sink"));
  // But what the contract does not offer is not held against the property.
  result.cases[VerdictKind::kUnsupported] = 4000;
  Conclude(facts, result);
  EXPECT_EQ(result.verdict, VerdictKind::kPass);
}

TEST(Conclude, OnlyUnsupportedCasesGiveTheCommonestReason) {
  PropertyResult result = ResultWith({{VerdictKind::kUnsupported, 5}});
  result.unsupported_reasons = {{"a", 1}, {"b", 4}};
  Conclude({}, result);
  EXPECT_EQ(result.verdict, VerdictKind::kUnsupported);
  EXPECT_EQ(result.reason, "b");
}

TEST(Conclude, ARunCutShortIsInconclusive) {
  RunFacts facts;
  facts.cut_short = "out of time";
  EXPECT_EQ(Concluded(ResultWith({{VerdictKind::kPass, 3}}), facts), VerdictKind::kInconclusive);
}

TEST(Conclude, AFindingGoesBeforeACut) {
  PropertyResult result = ResultWith({{VerdictKind::kPass, 3}});
  result.findings = {FindingOf(kProperty, VerdictKind::kFail)};
  RunFacts facts;
  facts.cut_short = "out of time";
  EXPECT_EQ(Concluded(result, facts), VerdictKind::kFail);
}

TEST(Conclude, AFindingUnderAnotherNameLeavesThisPropertyAlone) {
  PropertyResult result = ResultWith({{VerdictKind::kPass, 3}});
  result.findings = {FindingOf("other.claim", VerdictKind::kFail)};
  EXPECT_EQ(Concluded(result), VerdictKind::kPass);
}

TEST(Conclude, AFlakyFailureIsNoFindingAndIsSaidOnceWithItsCounts) {
  PropertyResult result = ResultWith({{VerdictKind::kPass, 3}, {VerdictKind::kFail, 1}});
  RunFacts facts;
  facts.flaky = "flaky: failed in 1 of 20 runs";
  facts.flaky_failures = 1;
  Conclude(facts, result);
  EXPECT_EQ(result.verdict, VerdictKind::kInconclusive);
  EXPECT_EQ(result.reason, "flaky: failed in 1 of 20 runs");
  facts.flaky_failures = 3;
  Conclude(facts, result);
  EXPECT_EQ(result.reason, "flaky: failed in 1 of 20 runs; and 2 more like it");
  result.findings = {FindingOf(kProperty, VerdictKind::kFail)};
  Conclude(facts, result);
  EXPECT_EQ(result.verdict, VerdictKind::kFail);
}

TEST(Conclude, AnIntermittentFailureSaysHowOften) {
  PropertyResult result = ResultWith({{VerdictKind::kFail, 1}});
  result.findings = {FindingOf(kProperty, VerdictKind::kFail)};
  result.findings[0].verdict.reason = "intermittent 4 of 20";
  Conclude({}, result);
  EXPECT_EQ(result.verdict, VerdictKind::kFail);
  EXPECT_EQ(result.reason, "intermittent 4 of 20");
}

TEST(Conclude, AFailingCaseKnownBeforeStillFails) {
  EXPECT_EQ(Concluded(ResultWith({{VerdictKind::kPass, 3}, {VerdictKind::kFail, 1}})),
            VerdictKind::kFail);
}

TEST(Conclude, OneMarginalCaseMakesItMarginal) {
  PropertyResult result = ResultWith({{VerdictKind::kPass, 3}, {VerdictKind::kMarginal, 1}});
  result.marginal_reasons = {{"bits", 1}};
  Conclude({}, result);
  EXPECT_EQ(result.verdict, VerdictKind::kMarginal);
  EXPECT_EQ(result.reason, "bits in 1 case");
}

TEST(Conclude, MarginalReasonsAreCountedApart) {
  PropertyResult result = ResultWith({{VerdictKind::kPass, 3}, {VerdictKind::kMarginal, 15}});
  result.marginal_reasons = {{"bits", 12}, {"statistics", 3}};
  Conclude({}, result);
  EXPECT_EQ(result.reason, "bits in 12 cases, statistics in 3");
}

TEST(Conclude, RowsThatAllDecideNothingAreInconclusive) {
  PropertyResult result = ResultWith({{VerdictKind::kPass, 3}});
  result.rows = 10;
  result.uninformative_rows = 4;
  result.unconstrained_rows = 6;
  EXPECT_EQ(Concluded(result), VerdictKind::kInconclusive);
}

TEST(Conclude, InconclusiveCasesBesidePassesLeaveAPass) {
  EXPECT_EQ(Concluded(ResultWith({{VerdictKind::kPass, 3}, {VerdictKind::kInconclusive, 1}})),
            VerdictKind::kPass);
}

TEST(Commonest, EmptyMapHasNone) {
  EXPECT_EQ(Commonest({}), "");
}

}  // namespace
}  // namespace attest
