// Which findings are put together, and under which cause.

#include "properties/harness/report/finding_groups.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/report/testing.h"

namespace attest {
namespace {

// The kinds of the groups, in order.
std::vector<std::string> KindsOf(const KernelReport& kernel) {
  std::vector<std::string> kinds;
  for (const FindingGroup& group : GroupsOf(kernel)) {
    kinds.push_back(ToString(group.shown().finding.signature));
  }
  return kinds;
}

// One that fits other causes beside its own.
ReportedFinding Fitting(const std::string& property, const std::string& cause_class,
                        const std::vector<std::string>& others) {
  ReportedFinding reported = Plain(property, cause_class);
  for (const std::string& other : others) {
    reported.finding.verdict.other_causes.push_back({other, "as if otherwise"});
  }
  return reported;
}

TEST(GroupsOf, OfOneKindThePlainOnesComeFirst) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {WithNan(Plain("a.b")), WithNan(Plain("a.c")), Plain("a.d")};
  EXPECT_THAT(KindsOf(kernel), testing::ElementsAre("a.d/value/out/scale"));
}

TEST(GroupsOf, TheCauseThatFitsMostTakesThoseThatHaveAnotherOfTheirOwn) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Fitting("a.b", "diagonal-slid", {"window-left-end"}),
                     Fitting("a.c", "window-ignored", {"diagonal-slid", "window-left-end"}),
                     Fitting("a.d", "window-left-end", {"diagonal-slid"}),
                     Plain("a.e", "window-left-end"), Plain("a.f", "lse-base")};
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, "window-left-end");
  EXPECT_EQ(groups[0].shown().finding.verdict.cause_class, "window-left-end");
  EXPECT_THAT(RestOf(groups[0]),
              testing::ElementsAre("the same cause explains 3 more findings: a.e, a.b, a.c"));
  EXPECT_EQ(groups[1].kind, "lse-base");
  EXPECT_TRUE(RestOf(groups[1]).empty());
}

TEST(GroupsOf, WhatAllCasesOfAGroupHaveIsSaid) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Plain("a.b"), Plain("a.c"), Plain("a.d")};
  for (ReportedFinding& reported : kernel.findings) {
    Case& c = reported.finding.smallest;
    c.problem.sinks = {1.0};
    c.problem.causal = &reported == &kernel.findings.front();
  }
  Case& derived = kernel.findings[1].finding.derived.emplace();
  derived.problem.sinks = {2.0};
  EXPECT_THAT(RestOf(GroupsOf(kernel)[0]), testing::ElementsAre(testing::_, "all 3 have sinks"));
  derived.problem.sinks.reset();
  EXPECT_EQ(RestOf(GroupsOf(kernel)[0]).size(), 1u);
}

// Shrinking has left sinks in every case: what is a fault of windows, which not all have, fits some of them by chance.
TEST(GroupsOf, ACauseOfAnotherFeatureThanAllShareDoesNotLead) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Plain("a.b", "window-left-end"), Plain("a.c", "window-left-end"), Plain("a.d"),
                     Fitting("a.e", "scale", {"window-left-end"})};
  for (size_t n = 0; n < kernel.findings.size(); ++n) {
    if (n < 2) kernel.findings[n].finding.smallest.problem.window.left = 1;
  }
  EXPECT_THAT(KindsOf(kernel),
              testing::ElementsAre("a.b/value/out/window-left-end", "a.d/value/out/scale"));
  for (ReportedFinding& reported : kernel.findings) reported.finding.smallest.problem.sinks = {1.0};
  EXPECT_THAT(KindsOf(kernel),
              testing::ElementsAre("a.d/value/out/scale", "a.b/value/out/window-left-end"));
}

// In the smallest cases the two come to the same, and the loudest is not the one that gives the others.
TEST(GroupsOf, ACauseThatGivesAllThatTheLoudestGivesAndMoreLeads) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Fitting("a.b", "head-0-for-all", {"feature-of-other-head"}),
                     Fitting("a.c", "head-0-for-all", {"feature-of-other-head"}),
                     Plain("a.d", "feature-of-other-head")};
  EXPECT_THAT(KindsOf(kernel), testing::ElementsAre("a.d/value/out/feature-of-other-head"));
  kernel.findings.push_back(Plain("a.e", "head-0-for-all"));
  EXPECT_THAT(KindsOf(kernel), testing::ElementsAre("a.b/value/out/head-0-for-all",
                                                    "a.d/value/out/feature-of-other-head"));
}

TEST(GroupsOf, WhatFitsMuchByChanceTakesNothingFromARule) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Plain("a.b", "numerics"), Plain("a.c", "numerics"), Plain("a.d", "numerics"),
                     Fitting("a.e", "scale", {"numerics", "row-zero"})};
  EXPECT_THAT(KindsOf(kernel),
              testing::ElementsAre("a.b/value/out/numerics", "a.e/value/out/scale"));
}

TEST(GroupsOf, WrongValuesWithoutACauseStandBelowTheFirstGroup) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Unnamed("a.b"),           Plain("a.c"), Unnamed("a.d"), Unnamed("a.d"),
                     Plain("a.e", "lse-base"), Plain("a.f")};
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(RestOf(groups[0]),
              testing::ElementsAre(
                  "the same cause explains 1 more finding: a.f",
                  "3 more findings name no sure cause and may be of the same fault: a.b, a.d (2)"));
  EXPECT_TRUE(groups[1].unexplained.empty());
}

TEST(GroupsOf, WhatFitsMuchByChanceIsNoLightBesideARuleOfSeveral) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Plain("a.b"), Plain("a.c"), Plain("a.d", "numerics"), Unnamed("a.e")};
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].findings.size(), 2u);
  EXPECT_EQ(PropertiesText(groups[0].unexplained), "a.e, a.d");
}

TEST(GroupsOf, OneFindingIsNoLightBesideMany) {
  KernelReport kernel = KernelWith("k", {});
  for (int i = 0; i < 7; ++i) kernel.findings.push_back(Plain("a." + std::to_string(i)));
  kernel.findings.push_back(Plain("b.c", "lse-base"));
  EXPECT_EQ(GroupsOf(kernel).size(), 2u);
  kernel.findings.push_back(Plain("a.7"));
  ASSERT_EQ(GroupsOf(kernel).size(), 1u);
  EXPECT_EQ(PropertiesText(GroupsOf(kernel)[0].unexplained), "b.c");
  kernel.findings.push_back(Plain("b.d", "lse-base"));
  EXPECT_EQ(GroupsOf(kernel).size(), 2u);
}

TEST(GroupsOf, OneWithANameIsNoCauseOfManyWithout) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Plain("a.b", "padded-query-rows"), Unnamed("a.c"), Unnamed("a.d"),
                     Unnamed("a.e")};
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, "");
  EXPECT_EQ(groups[0].findings.size(), 3u);
  EXPECT_EQ(groups[1].kind, "padded-query-rows");
}

TEST(GroupsOf, WithoutAnyCauseAllAreOneGroup) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Unnamed("a.b"), WithNan(Unnamed("a.c"))};
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_THAT(RestOf(groups[0]), testing::ElementsAre("1 more finding is like it: a.c"));
}

TEST(GroupsOf, FaultsAndWhatIsWaivedStandApart) {
  KernelReport kernel = KernelWith("k", {});
  ReportedFinding crash = Unnamed("a.b"), waived = Plain("a.c");
  crash.finding.signature.cause = crash.finding.verdict.cause = Cause::kCrash;
  crash.finding.signature.output.clear();
  waived.waived = "known";
  kernel.findings = {crash, crash, waived, Plain("a.d")};
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].shown().finding.signature.property, "a.d");
  EXPECT_EQ(groups[1].findings.size(), 2u);
  EXPECT_EQ(groups[2].shown().waived, "known");
}

TEST(GroupsOf, WhatRowsLookLikeSpeaksAQuarterAsLoudAsARule) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Plain("a.b", "row-zero"), Plain("a.c", "row-zero"), Plain("a.d"), Plain("a.e"),
                     Plain("a.f", "row-zero")};
  EXPECT_EQ(KindsOf(kernel).front(), "a.d/value/out/scale");
  for (int i = 0; i < 6; ++i)
    kernel.findings.push_back(Plain("b." + std::to_string(i), "row-zero"));
  EXPECT_EQ(KindsOf(kernel).front(), "a.b/value/out/row-zero");
}

// One whose smallest case has what `problem` says.
ReportedFinding In(ReportedFinding reported, void (*problem)(Problem&)) {
  problem(reported.finding.smallest.problem);
  return reported;
}

void WithLengths(Problem& p) {
  p.key_lengths = {2};
}
void WithCausality(Problem& p) {
  p.causal = true;
}

// Slid diagonals are 10 of 13 findings, and show in no case without a diagonal.
TEST(GroupsOf, AWeakerFaultThatTheStrongerCannotShowStandsByItself) {
  KernelReport kernel = KernelWith("k", {});
  for (int i = 0; i < 10; ++i) {
    kernel.findings.push_back(In(Plain("a." + std::to_string(i), "diagonal-slid"), WithCausality));
  }
  kernel.findings.push_back(In(Plain("b.c", "lengths-ignored"), WithLengths));
  kernel.findings.push_back(In(Unnamed("b.d"), WithLengths));
  kernel.findings.push_back(In(Unnamed("b.e"), WithCausality));
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, "diagonal-slid");
  EXPECT_EQ(PropertiesText(groups[0].unexplained), "b.e");
  EXPECT_EQ(groups[1].kind, "lengths-ignored");
  EXPECT_EQ(groups[1].shown().finding.signature.property, "b.c");
  EXPECT_EQ(PropertiesText(groups[1].unexplained), "b.d");
}

TEST(GroupsOf, WithoutANameTheWeakerFaultIsABlockOfItsSmallestCase) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {In(Plain("a.b", "diagonal-slid"), WithCausality),
                     In(Plain("a.c", "diagonal-slid"), WithCausality),
                     In(Unnamed("b.c"), WithLengths), In(Unnamed("b.d"), WithLengths)};
  kernel.findings[2].finding.smallest.problem.kv_len = 9;
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[1].kind, "");
  EXPECT_EQ(groups[1].shown().finding.signature.property, "b.d");
  EXPECT_THAT(RestOf(groups[1]), testing::ElementsAre("1 more finding is like it: b.c"));
}

// A row that sees no key, under lengths that are ignored, says nothing of rows that see none.
TEST(GroupsOf, AVagueCauseThatTheStrongerCanShowIsNoBlock) {
  KernelReport kernel = KernelWith("k", {});
  const auto empty = [](Problem& p) { p.key_lengths = {0}; };
  kernel.findings = {In(Plain("a.b", "lengths-ignored"), WithLengths),
                     In(Plain("a.c", "lengths-ignored"), WithLengths),
                     In(Plain("b.c", "empty-row"), empty), In(Plain("b.d", "empty-row"), empty)};
  ASSERT_EQ(GroupsOf(kernel).size(), 1u);
  EXPECT_EQ(PropertiesText(GroupsOf(kernel)[0].unexplained), "b.c, b.d");
  // By a mask alone it does.
  kernel.findings[3].finding.smallest.problem.key_lengths.reset();
  kernel.findings[3].finding.smallest.problem.mask = BitPlane{{1, 1, 1, 3}, 4, {0, 0, 0}};
  ASSERT_EQ(GroupsOf(kernel).size(), 2u);
  EXPECT_EQ(GroupsOf(kernel)[1].shown().finding.signature.property, "b.d");
}

// Every case has a bias; the other kinds need none.
TEST(GroupsOf, AFaultOfWhatAllCasesHaveSpeaksLouder) {
  KernelReport kernel = KernelWith("k", {});
  const auto bias = [](Problem& p) { p.bias = BitPlane{{1, 1, 1, 3}, 4, {1, 1, 1}}; };
  kernel.findings = {In(Plain("a.b", "row-misplaced"), bias),
                     In(Plain("a.c", "row-misplaced"), bias), In(Plain("a.d", "split-merge"), bias),
                     In(Plain("a.e", "bias-ignored"), bias)};
  EXPECT_EQ(GroupsOf(kernel).front().kind, "bias-ignored");
  kernel.findings[2].finding.smallest.problem.bias.reset();
  EXPECT_EQ(GroupsOf(kernel).front().kind, "row-misplaced");
}

// A claim may give the kernel what its case does not have.
TEST(GroupsOf, WhatTheDerivedCasesHaveCounts) {
  KernelReport kernel = KernelWith("k", {});
  const auto flag = [] { return Unnamed("causal.flag_equals_explicit_triangle"); };
  kernel.contract = *ParseContract(R"({"contract": "attest-1"})");
  kernel.findings = {In(Plain("a.b", "causal-ignored"), WithCausality),
                     In(Plain("a.c", "causal-ignored"), WithCausality), In(flag(), WithCausality)};
  EXPECT_EQ(GroupsOf(kernel).size(), 1u);
  kernel.findings[2] = Unnamed("padding.padded_keys_do_not_matter");
  EXPECT_EQ(GroupsOf(kernel).size(), 2u);
}

ReportedFinding OfTwenty(ReportedFinding reported, int confirmed) {
  reported.finding.confirmed = confirmed;
  reported.finding.confirmations = 20;
  return reported;
}

TEST(GroupsOf, WhatDoesNotFailAloneStandsBelowTheCallBefore) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {OfTwenty(Unnamed("a.b"), 0),        OfTwenty(Unnamed("a.c"), 0),
                     OfTwenty(Unnamed("a.d"), 0),        OfTwenty(Plain("a.e", "scale"), 3),
                     OfTwenty(Plain("a.f", "scale"), 4), OfTwenty(Plain("a.g", "call-before"), 20)};
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].shown().finding.signature.property, "a.g");
  EXPECT_THAT(RestOf(groups[0]),
              testing::ElementsAre(
                  "5 more findings fail not each time when run alone: a.e, a.f, a.b, a.c, a.d"));
}

}  // namespace
}  // namespace attest
