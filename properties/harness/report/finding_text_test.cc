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
    kinds.push_back(ToString(group.front()->finding.signature));
  }
  return kinds;
}

TEST(GroupsOf, OfOneKindThePlainOnesComeFirst) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {WithNan(Plain("a.b")), WithNan(Plain("a.c")), Plain("a.d")};
  EXPECT_THAT(KindsOf(kernel), testing::ElementsAre("a.d/value/out/scale", "a.b/nan/out/scale"));
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
