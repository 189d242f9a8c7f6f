// Which finding is shown first, and how it reads.

#include "properties/harness/report/finding_text.h"

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/report/testing.h"

namespace attest {
namespace {

using testing::HasSubstr;
using testing::Not;

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

}  // namespace
}  // namespace attest
