#include "properties/harness/report/waivers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/report/result_text.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kText[] = R"(
[[waiver]]
kernel = "ort:attention*"
versions = ">=1.9 <1.30"
signature = "equivalence.matches_reference/value/out"
reason = "known"
)";

ReportedFinding FindingOf(const std::string& property, Cause cause, const std::string& output) {
  ReportedFinding reported;
  reported.finding.signature = {property, cause, output, "some-class"};
  reported.finding.verdict.kind = VerdictKind::kFail;
  return reported;
}

KernelReport KernelOf(const std::string& name, VerdictKind kind,
                      std::vector<ReportedFinding> findings) {
  KernelReport kernel;
  kernel.kernel = name;
  kernel.identity = {"ort", "1.28.2", "{}"};
  kernel.results.resize(1);
  kernel.results[0].property = "equivalence.matches_reference";
  kernel.results[0].verdict = kind;
  kernel.results[0].cases[kind] = 7;
  kernel.findings = std::move(findings);
  return kernel;
}

// What `attest check` does with a finished kernel.
KernelReport Waived(KernelReport kernel) {
  const auto waivers = ParseWaivers(kText, "w.toml");
  EXPECT_TRUE(waivers) << waivers.error();
  for (ReportedFinding& reported : kernel.findings) {
    reported.waived =
        ReasonToWaive(*waivers, kernel.kernel, kernel.identity.version, reported.finding.signature);
  }
  ApplyWaivers(*waivers, kernel);
  return kernel;
}

int ExitOf(const KernelReport& kernel) {
  RunReport report;
  report.kernels = {kernel};
  return ExitCode(report);
}

const ReportedFinding kKnown = FindingOf("equivalence.matches_reference", Cause::kValue, "out");

TEST(Waivers, AKnownFindingIsShownAndDoesNotFail) {
  KernelReport kernel = Waived(KernelOf("ort:attention?opset=23", VerdictKind::kFail, {kKnown}));
  EXPECT_EQ(VerdictText(kernel.findings[0]), "WAIVED");
  EXPECT_EQ(VerdictText(kernel.results[0]), "WAIVED");
  EXPECT_THAT(kernel.idle_waivers, IsEmpty());
  EXPECT_EQ(ExitOf(kernel), 2) << "nothing else was decided";
  kernel.results.emplace_back().verdict = VerdictKind::kPass;
  EXPECT_EQ(ExitOf(kernel), 0);
}

TEST(Waivers, AnythingElseStillFails) {
  const ReportedFinding others[] = {
      FindingOf("equivalence.matches_reference", Cause::kNan, "out"),
      FindingOf("equivalence.matches_reference", Cause::kValue, "lse"),
      FindingOf("causal.future_keys_do_not_matter", Cause::kValue, "out")};
  for (const ReportedFinding& other : others) {
    const KernelReport kernel =
        Waived(KernelOf("ort:attention", VerdictKind::kFail, {kKnown, other}));
    EXPECT_EQ(kernel.findings[1].waived, "");
    EXPECT_EQ(ExitOf(kernel), 1) << ToString(other.finding.signature);
  }
  EXPECT_EQ(ExitOf(Waived(KernelOf("ort:mha", VerdictKind::kFail, {kKnown}))), 1);
}

TEST(Waivers, VersionsCompareNumberByNumber) {
  for (const auto& [version, holds] : std::map<std::string, bool>{
           {"1.9", true}, {"1.28.2", true}, {"1.8.9", false}, {"1.30", false}, {"1.30.0", false}}) {
    KernelReport kernel = KernelOf("ort:attention", VerdictKind::kFail, {kKnown});
    kernel.identity.version = version;
    EXPECT_EQ(!Waived(kernel).findings[0].waived.empty(), holds) << version;
  }
}

TEST(Waivers, AnUnexpectedPassIsReported) {
  EXPECT_THAT(Waived(KernelOf("ort:attention", VerdictKind::kPass, {})).idle_waivers,
              ElementsAre(HasSubstr("unexpected PASS: 7 cases")));
  EXPECT_THAT(Waived(KernelOf("ort:attention", VerdictKind::kUnsupported, {})).idle_waivers,
              IsEmpty());
  EXPECT_THAT(Waived(KernelOf("tiled", VerdictKind::kPass, {})).idle_waivers, IsEmpty());
}

TEST(Waivers, AVersionMayBeANameBehindAnOperator) {
  const auto waivers = ParseWaivers(
      "[[waiver]]\nkernel = 'ggml:flash'\nversions = '=b10256'\nreason = 'r'\n"
      "signature = 'heads.labels_come_back/value/out'",
      "w.toml");
  ASSERT_TRUE(waivers) << waivers.error();
  const Signature signature{"heads.labels_come_back", Cause::kValue, "out", ""};
  EXPECT_EQ(ReasonToWaive(*waivers, "ggml:flash", "b10256", signature), "r");
  EXPECT_EQ(ReasonToWaive(*waivers, "ggml:flash", "b10300", signature), "");
}

TEST(Waivers, BadFilesAreOneLineThatNamesThePlace) {
  const std::pair<std::string, std::string> files[] = {
      {"[[waiver]]\nkernel = 1", "w.toml:2"},
      {"[[waiver]]\nkernal = 'x'", "kernal"},
      {"[[waiver]]\nkernel = 'x'\nreason = ''\nversions = '*'\nsignature = 'a/b'",
       "reason is empty"},
      {"[[waiver]]\nkernel = 'x'\nreason = 'r'\nversions = '*'\nsignature = 'a.b/value'", "a.b"},
      {"[[waiver]]\nkernel = 'x'\nreason = 'r'\nversions = 'new'\nsignature = 'a/b'", "'new'"},
      {"[[waiver]]\nkernel = 'x'\nreason = 'r'\nversions = '*'\nsignature = "
       "'heads.labels_come_back'",
       "property/cause"},
      {"waiver = 3", "waiver"},
      {"[[waiver", "w.toml:1"}};
  for (const auto& [text, part] : files) {
    const auto waivers = ParseWaivers(text, "w.toml");
    ASSERT_FALSE(waivers) << text;
    EXPECT_THAT(waivers.error(), HasSubstr(part)) << text;
    EXPECT_EQ(waivers.error().find('\n'), std::string::npos) << text;
  }
  EXPECT_THAT(ReadWaivers("/nowhere/w.toml").error(), HasSubstr("/nowhere/w.toml"));
  const auto folder = ReadWaivers(testing::TempDir());
  ASSERT_FALSE(folder) << "a folder is no empty file";
  EXPECT_THAT(folder.error(), HasSubstr("folder"));
}

}  // namespace
}  // namespace attest
