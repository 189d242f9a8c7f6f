#include "properties/harness/report/markdown.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/report/testing.h"

namespace attest {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(MarkdownText, IsNothingButText) {
  EXPECT_EQ(MarkdownText("a.b_c"), "a.b\\_c");
  EXPECT_EQ(MarkdownText("a|b\nc"), "a&#124;b c");
  EXPECT_EQ(MarkdownText("<b>`x`"), "&#60;b&#62;\\`x\\`");
  EXPECT_EQ(MarkdownText("[x](http://y) @z"), "\\[x\\]\\(http\\://y\\) &#64;z");
}

TEST(MarkdownBlock, CannotBeEndedFromWithin) {
  EXPECT_EQ(MarkdownBlock("a"), "```text\na\n```\n");
  EXPECT_EQ(MarkdownBlock("```\n# b\n"), "````text\n```\n# b\n````\n");
}

TEST(MarkdownReport, HasLadderMatrixByFamilyAndFoldedFindings) {
  KernelReport kernel = KernelWith("tiled?tile=16", {ResultOf("k", "a.b", VerdictKind::kPass, 1),
                                                     ResultOf("k", "a.c", VerdictKind::kFail, 1),
                                                     ResultOf("k", "a.d", VerdictKind::kPass, 1)});
  kernel.findings = {FindingOn("k", "a.c")};
  KernelReport skipped = KernelWith("x|y", {});
  skipped.skipped = "not <installed>";
  const std::string text = MarkdownReport(ReportOf({kernel, skipped}));
  EXPECT_THAT(text, testing::StartsWith("## attest: \xe2\x9c\x97 FAIL\n"));
  EXPECT_THAT(text, HasSubstr("| ladder | tiled\\?tile\\=16 |\n"));
  EXPECT_THAT(text, HasSubstr("| memory-safe | ? not shown |\n"));
  EXPECT_THAT(text, HasSubstr("| a | 1 \xe2\x9c\x97 FAIL, 2 \xe2\x9c\x93 PASS |\n"));
  EXPECT_THAT(text, HasSubstr("- x&#124;y: skipped: not &#60;installed&#62;\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("<details><summary>"), HasSubstr("kv_len = 3")));
}

TEST(MarkdownReport, AFailureThatIsWaivedIsShownAsSuch) {
  KernelReport kernel = KernelWith("k", {ResultOf("k", "a.c", VerdictKind::kFail, 1)});
  kernel.results[0].waived = true;
  kernel.findings = {FindingOn("k", "a.c")};
  kernel.findings[0].waived = "known";
  const std::string text = MarkdownReport(ReportOf({kernel}));
  EXPECT_THAT(text,
              AllOf(HasSubstr("WAIVED"), HasSubstr("Waived: known"), Not(HasSubstr("FAIL |"))));
  EXPECT_THAT(text, testing::StartsWith("## attest: \xe2\x89\x88 WAIVED\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("0 findings, 1 waived"), Not(HasSubstr("PASS"))));
}

TEST(MarkdownReport, APictureOfAModelKeepsEachCharacterInItsPlace) {
  KernelReport kernel = KernelWith("m", {});
  kernel.is_model = true;
  kernel.notes = {"observed  intended", "##.       #.."};
  EXPECT_THAT(MarkdownReport(ReportOf({kernel})),
              HasSubstr("```text\nobserved  intended\n##.       #..\n```\n"));
}

TEST(MarkdownReport, StaysBelowAMegabyte) {
  KernelReport kernel = KernelWith("k", {});
  for (int i = 0; i < 400; ++i) {
    kernel.findings.push_back(FindingOn("k", "a.c"));
    kernel.findings.back().finding.verdict.cause_class = "class-" + std::to_string(i);
    kernel.findings.back().finding.verdict.sentence = std::string(3000, 'x');
  }
  const std::string text = MarkdownReport(ReportOf({kernel}));
  EXPECT_LT(text.size(), 1'000'000u);
  EXPECT_GT(text.size(), 500'000u);
  EXPECT_THAT(text, HasSubstr(" more findings are in their case files."));
}

}  // namespace
}  // namespace attest
