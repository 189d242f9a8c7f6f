// Which finding is shown first, and how it reads.

#include "properties/harness/report/finding_text.h"

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/report/finding_groups.h"
#include "properties/harness/report/testing.h"

namespace attest {
namespace {

using testing::HasSubstr;
using testing::Not;

// One that has come by 2 where 1 was due, with a likely cause.
ReportedFinding Plain(const std::string& property, const std::string& cause_class = "scale") {
  ReportedFinding reported = FindingOn("k", property);
  Verdict& verdict = reported.finding.verdict;
  verdict.witness = Witness{{0, 0, 0, 0}, 1, 2, 0};
  verdict.cause_class = reported.finding.signature.cause_class = cause_class;
  verdict.likely_cause = "as if so; in every row";
  verdict.sentence = "out is 2 where 1 was due: it does not match; as if so; in every row";
  return reported;
}

ReportedFinding WithNan(ReportedFinding reported) {
  reported.finding.verdict.witness->observed = std::nan("");
  reported.finding.signature.cause = reported.finding.verdict.cause = Cause::kNan;
  return reported;
}

TEST(FindingText, TheLikelyCauseHasTheLineAfterTheHeadline) {
  ReportedFinding reported = Plain("a.b");
  EXPECT_THAT(FindingText(reported),
              testing::StartsWith("FAIL k: a.b/value/out/scale\n"
                                  "  likely cause: as if so; in every row\n"
                                  "  out is 2 where 1 was due: it does not match\n"));
  reported.finding.verdict.sentence += " (intermittent 1 of 3)";
  EXPECT_THAT(FindingText(reported), HasSubstr("it does not match (intermittent 1 of 3)\n"));
  reported.finding.verdict.likely_cause.clear();
  EXPECT_THAT(FindingText(reported), Not(HasSubstr("likely cause")));
  EXPECT_THAT(FindingText(reported), HasSubstr("as if so"));
}

TEST(ShowsBetter, APlainNumberComesBeforeNanAndBeforeADerivedCase) {
  const Finding plain = Plain("z.z").finding;
  Finding odd[] = {WithNan(Plain("a.b")).finding, Plain("a.b").finding, Plain("a.b").finding};
  odd[1].verdict.witness->expected = std::numeric_limits<double>::infinity();
  odd[2].derived = odd[2].smallest;
  EXPECT_TRUE(IsPlain(plain));
  for (const Finding& other : odd) {
    EXPECT_FALSE(IsPlain(other));
    EXPECT_TRUE(ShowsBetter(plain, other));
    EXPECT_FALSE(ShowsBetter(other, plain));
  }
}

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

ReportedFinding Unnamed(const std::string& property) {
  ReportedFinding reported = Plain(property, "");
  reported.finding.verdict.likely_cause.clear();
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

TEST(FindingText, APresentIsDrawnKeyByKey) {
  ReportedFinding reported = Unnamed("cache.present_is_past_and_new_together");
  Finding& finding = reported.finding;
  finding.verdict.output = finding.signature.output = "present_v";
  finding.verdict.witness->index = {0, 0, 1, 0};
  finding.smallest.storage.past = 2;
  EXPECT_THAT(FindingText(reported),
              HasSubstr("  present_v of batch item 0, kv head 0, key by key:\n"
                        "    key 0   past\n"
                        "    key 1   past  <\n"
                        "    key 2   new\n"));
}

TEST(GroupsOf, WhatRowsLookLikeSpeaksHalfAsLoudAsARule) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {Plain("a.b", "row-zero"), Plain("a.c", "row-zero"), Plain("a.d"), Plain("a.e"),
                     Plain("a.f", "row-zero")};
  EXPECT_EQ(KindsOf(kernel).front(), "a.d/value/out/scale");
  kernel.findings.push_back(Plain("a.g", "row-zero"));
  kernel.findings.push_back(Plain("a.h", "row-zero"));
  EXPECT_EQ(KindsOf(kernel).front(), "a.b/value/out/row-zero");
}

}  // namespace
}  // namespace attest
