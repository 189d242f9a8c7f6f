#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "properties/harness/report/contract_notes.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/junit.h"
#include "properties/harness/report/picture.h"
#include "properties/harness/report/result_text.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/report/testing.h"

namespace attest {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ExitCode, PassesAndMarginalsAreZero) {
  EXPECT_EQ(
      ExitCode(ReportOf({KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kPass, 1),
                                          ResultOf("k", "a.c", VerdictKind::kMarginal, 1)})})),
      0);
}

TEST(ExitCode, OnlyUnsupportedIsTwo) {
  EXPECT_EQ(
      ExitCode(ReportOf({KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kUnsupported, 0)})})),
      2);
}

TEST(ExitCode, NoKernelIsTwo) {
  EXPECT_EQ(ExitCode(ReportOf({})), 2);
}

TEST(ExitCode, AFindingGoesBeforeAnInconclusiveResult) {
  EXPECT_EQ(ExitCode(ReportOf({KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kInconclusive, 1),
                                                ResultOf("k", "a.c", VerdictKind::kFail, 1)})})),
            1);
}

TEST(ExitCode, AFindingOfAPropertyNotAskedForCounts) {
  KernelReport kernel = KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kPass, 1)});
  kernel.findings = {FindingOn("k", "other.claim")};
  EXPECT_EQ(ExitCode(ReportOf({kernel})), 1);
}

TEST(ExitCode, OptionalKernelsDoNotDecide) {
  KernelReport good = KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kPass, 1)});
  KernelReport bad = KernelWith("o", {ResultOf("o", "a.b", VerdictKind::kFail, 1)});
  bad.optional = true;
  EXPECT_EQ(ExitCode(ReportOf({good, bad})), 0);
  EXPECT_EQ(ExitCode(ReportOf({bad})), 2) << "nothing that counts was run";
}

TEST(AttributeFindings, MakesTheNamedPropertyFail) {
  KernelReport kernel = KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kPass, 1)});
  kernel.findings = {FindingOn("k", "a.b")};
  AttributeFindings(kernel);
  EXPECT_EQ(kernel.results[0].verdict, VerdictKind::kFail);
}

TEST(FoldFindings, OneWithoutAClassGoesWhereAnotherHasOne) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {FindingOn("k", "a.b"), FindingOn("k", "a.b"), FindingOn("k", "a.b"),
                     FindingOn("k", "a.c")};
  kernel.findings[1].finding.signature.cause_class = "one";
  kernel.findings[2].finding.signature.cause_class = "other";
  FoldFindings(kernel);
  std::vector<std::string> left;
  for (const ReportedFinding& f : kernel.findings) left.push_back(ToString(f.finding.signature));
  EXPECT_THAT(left,
              testing::ElementsAre("a.b/value/out/one", "a.b/value/out/other", "a.c/value/out"));
}

TEST(JsonLines, EachIsOneObjectOnOneLine) {
  KernelReport kernel = KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kPass, 7)});
  kernel.identity.version = "bad \xff utf-8\nline";
  const RunReport report = ReportOf({kernel});
  const std::string lines[] = {RunLine(report), ResultLine(kernel.results[0]),
                               FindingLine(FindingOn("k", "a.b")), SummaryLine(report, 1, 3)};
  const char* types[] = {"run", "result", "finding", "summary"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(std::count(lines[i].begin(), lines[i].end(), '\n'), 1);
    EXPECT_EQ(nlohmann::json::parse(lines[i])["type"], types[i]);
  }
}

TEST(JsonLines, NamesWhatJsonHasNoNumberFor) {
  const auto json = nlohmann::json::parse(FindingLine(FindingOn("k", "a.b")));
  EXPECT_EQ(json["witness"]["expected"], "nan");
  EXPECT_EQ(json["witness"]["observed"], 1.0);
  EXPECT_EQ(json["signature"], "a.b/value/out");
  EXPECT_EQ(json["class"], "");
  EXPECT_EQ(json["sizes"]["kv_len"], 3);
}

TEST(JsonLines, ResultsCarryWhatStandsBesideAVerdict) {
  const auto json = nlohmann::json::parse(ResultLine(ResultWithNumbers()));
  EXPECT_EQ(json["uninformative_rows"], 3);
  EXPECT_EQ(json["unconstrained_rows"], 4);
  EXPECT_EQ(json["worst_ratio"], 0.31);
  EXPECT_EQ(json["figures"]["probable_ratio"], 0.6);
  EXPECT_EQ(json["figures"]["rms"], 0.2);
  EXPECT_EQ(json["figures"]["plain_ratio"], 1.4);
  EXPECT_EQ(json["marginal_reasons"]["bits"], 12);
}

TEST(JsonLines, TheSummaryHasEachKernelsLadder) {
  KernelReport kernel =
      KernelWith("k", {ResultOf("k", "equivalence.matches_reference", VerdictKind::kFail, 1)});
  kernel.findings = {FindingOn("k", "equivalence.matches_reference")};
  KernelReport skipped = KernelWith("s", {});
  skipped.skipped = "not installed";
  const auto json = nlohmann::json::parse(SummaryLine(ReportOf({kernel, skipped}), 1, 0));
  const auto ladder = json["kernels"][0]["ladder"];
  EXPECT_TRUE(ladder["highest"].is_null());
  EXPECT_EQ(ladder["rungs"].size(), 8u);
  EXPECT_EQ(ladder["rungs"][0]["rung"], "memory-safe");
  EXPECT_EQ(ladder["rungs"][0]["state"], "not shown");
  EXPECT_EQ(ladder["rungs"][5]["rung"], "within the bound");
  EXPECT_EQ(ladder["rungs"][5]["state"], "breaks");
  EXPECT_EQ(ladder["witness"]["replay"], "attest replay attest-report/x.toml");
  EXPECT_FALSE(json["kernels"][1].contains("ladder"));
}

TEST(JUnit, HeadsASuiteWithItsLadderAndSaysWhatStandsBesideAPass) {
  const KernelReport kernel = KernelWith("k", {ResultWithNumbers()});
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(JUnitText(ReportOf({kernel})).c_str()));
  const auto suite = document.child("testsuites").child("testsuite");
  const auto properties = suite.child("properties");
  EXPECT_EQ(suite.first_child(), properties);
  const auto value = [&](const char* name) {
    return std::string(
        properties.find_child_by_attribute("property", "name", name).attribute("value").value());
  };
  EXPECT_THAT(value("ladder"), testing::StartsWith("no rung; only 1 of "));
  EXPECT_THAT(value("ladder: within the bound"), HasSubstr("not shown: "));
  EXPECT_THAT(value("errors"), HasSubstr("0.31 of the bound"));
  EXPECT_THAT(suite.child("system-out").text().get(), HasSubstr("ladder: holds no rung"));
  EXPECT_THAT(suite.child("testcase").child("system-out").text().get(),
              HasSubstr("of 100 rows 3 uninformative, 4 unconstrained"));
}

TEST(JUnit, AFlakyFindingIsAnErrorWithItsCounts) {
  KernelReport kernel = KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kInconclusive, 1)});
  kernel.results[0].reason = "flaky: failed in 1 of 20 runs";
  kernel.findings = {FindingOn("k", "a.b")};
  kernel.findings[0].finding.verdict.kind = VerdictKind::kInconclusive;
  kernel.findings[0].finding.confirmed = 1;
  kernel.findings[0].finding.confirmations = 20;
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(JUnitText(ReportOf({kernel})).c_str()));
  const auto error =
      document.child("testsuites").child("testsuite").child("testcase").child("error");
  EXPECT_STREQ(error.attribute("message").value(), "flaky: failed in 1 of 20 runs");
  EXPECT_THAT(error.text().get(), HasSubstr("fails again in 1 of 20 reruns"));
}

TEST(JUnit, CountsEveryKindAndEscapesText) {
  KernelReport kernel =
      KernelWith("k<1>", {ResultOf("k<1>", "a.pass", VerdictKind::kPass, 1),
                          ResultOf("k<1>", "a.fail", VerdictKind::kFail, 1),
                          ResultOf("k<1>", "a.un", VerdictKind::kUnsupported, 1),
                          ResultOf("k<1>", "a.in", VerdictKind::kInconclusive, 1)});
  kernel.findings = {FindingOn("k<1>", "a.fail"), FindingOn("k<1>", "not.run")};
  pugi::xml_document document;
  const std::string text = JUnitText(ReportOf({kernel}));
  ASSERT_TRUE(document.load_string(text.c_str())) << text;
  const auto suite = document.child("testsuites").child("testsuite");
  EXPECT_STREQ(suite.attribute("name").value(), "k<1>");
  EXPECT_EQ(suite.attribute("tests").as_int(), 5);
  EXPECT_EQ(suite.attribute("failures").as_int(), 2);
  EXPECT_EQ(suite.attribute("skipped").as_int(), 1);
  EXPECT_EQ(suite.attribute("errors").as_int(), 1);
  const auto failure = suite.find_child_by_attribute("testcase", "name", "a.fail").child("failure");
  EXPECT_STREQ(failure.attribute("message").value(), "a <wrong> & \"odd\" value?");
  EXPECT_THAT(failure.text().get(), HasSubstr("attest replay attest-report/x.toml"));
}

TEST(Terminal, OneKernelIsAListWithCounts) {
  const std::string text = TerminalReport(
      ReportOf({KernelWith("k", {ResultOf("k", "a.pass", VerdictKind::kPass, 150),
                                 ResultOf("k", "a.un", VerdictKind::kUnsupported, 0)})}));
  EXPECT_THAT(text, HasSubstr("150"));
  EXPECT_THAT(text, HasSubstr("no causal masking"));
  EXPECT_THAT(text, HasSubstr("plan quick, seed 1"));
}

TEST(Terminal, SeveralKernelsAreAMatrix) {
  const std::string text = TerminalReport(
      ReportOf({KernelWith("one", {ResultOf("one", "a.b", VerdictKind::kPass, 1)}),
                KernelWith("two", {ResultOf("two", "a.b", VerdictKind::kFail, 1)})}));
  EXPECT_THAT(text, testing::ContainsRegex("one +two"));
  EXPECT_THAT(text, testing::ContainsRegex("a\\.b +PASS +FAIL"));
}

TEST(Terminal, EachKernelIsHeadedByItsLadderAndErrors) {
  KernelReport kernel = KernelWith("k", {ResultWithNumbers()});
  kernel.identity.version = "1\n2";
  const std::string text = TerminalReport(ReportOf({kernel}));
  EXPECT_THAT(text, testing::StartsWith(
                        "k: k 1 2, contract of its own\n  ladder: holds no rung; only 1 of "));
  EXPECT_THAT(text, HasSubstr("  errors: at most 0.31 of the bound, 0.6 of the probable one, rms "
                              "0.2; 1.4 times those of plain arithmetic of the same precision\n"));
  EXPECT_THAT(text, HasSubstr("bits in 12 cases, statistics in 3; of 100 rows 3 uninformative"));
}

TEST(Terminal, AMatrixNotesMarginalCasesAndRowsThatDecideNothing) {
  const std::string text = TerminalReport(
      ReportOf({KernelWith("k", {ResultWithNumbers()}), KernelWith("l", {ResultWithNumbers()})}));
  EXPECT_THAT(text, HasSubstr("k: MARGINAL: bits: equivalence.matches_reference (12 of 15 cases)"));
  EXPECT_THAT(text, HasSubstr("l: MARGINAL: statistics: equivalence.matches_reference (3 of 15"));
  EXPECT_THAT(text, HasSubstr("k: equivalence.matches_reference of 100 rows 3 uninformative, 4 "
                              "unconstrained\n"));
}

TEST(ErrorsText, LeavesOutWhatWasNotMeasured) {
  KernelReport kernel = KernelWith("k", {ResultWithNumbers()});
  kernel.results[0].figures = {};
  EXPECT_EQ(ErrorsText(kernel), "at most 0.31 of the bound");
  kernel.results[0].property = "a.b";
  EXPECT_EQ(ErrorsText(kernel), "");
}

TEST(FindingText, SpellsOutAShortDerivedCase) {
  ReportedFinding reported = FindingOn("k", "a.b");
  EXPECT_THAT(FindingText(reported), Not(HasSubstr("the derived case")));
  reported.finding.derived = reported.finding.smallest;
  reported.finding.derived->problem.kv_len = 5;
  EXPECT_THAT(FindingText(reported),
              testing::AllOf(HasSubstr("the derived case that the value is from:"),
                             HasSubstr("kv_len = 5"), HasSubstr("#####")));
  reported.finding.derived->problem.kv_len = 1000;
  EXPECT_THAT(FindingText(reported), Not(HasSubstr("the derived case")));
}

TEST(Terminal, SkippedKernelsSayWhy) {
  KernelReport skipped = KernelWith("onnx", {});
  skipped.optional = true;
  skipped.skipped = "not installed";
  EXPECT_THAT(TerminalReport(ReportOf({skipped})), HasSubstr("skipped: not installed"));
}

TEST(Terminal, FindingsOfOneCauseAreOneGroup) {
  KernelReport kernel = KernelWith("k", {});
  kernel.findings = {FindingOn("k", "a.b"), FindingOn("k", "a.c")};
  const std::string text = FindingsText(ReportOf({kernel}));
  EXPECT_THAT(text, HasSubstr("the smallest case:"));
  EXPECT_THAT(text, HasSubstr("1 more finding is like it: a.c"));
  EXPECT_THAT(text, Not(HasSubstr("\x01")));
}

TEST(Picture, ShowsWhatEachQuerySees) {
  Problem p;
  p.q_len = 3;
  p.kv_len = 4;
  p.causal = true;
  EXPECT_EQ(VisiblePicture(p, Row{0, 0, 1}),
            "query 0  #...\n"
            "query 1  ##..  <\n"
            "query 2  ###.\n");
}

TEST(Picture, MarksPrefixDocumentsBlocksAndPadding) {
  Problem p;
  p.q_len = 3;
  p.kv_len = 4;
  p.causal = true;
  p.prefix_lengths = {3};
  p.documents = Documents{{1, 1, 2}, {1, 1, 2, 2}};
  p.block_mask = BlockMask{1, 3, {{1, 1, 3, 2}, 4, {1, 1, 1, 1, 0, 1}}};
  p.query_lengths = {2};
  EXPECT_EQ(VisiblePicture(p, Row{0, 0, 2}),
            "query 0  #+d.\n"
            "query 1  ##d.\n"
            "query 2  ..b.  padding  <\n"
            "+ = visible by the prefix alone\n"
            "d = hidden by its document alone\n"
            "b = hidden by the block mask alone\n");
}

TEST(Picture, IsEmptyWithoutRowsOrKeysAndForLargeCases) {
  Problem p;
  p.kv_len = 0;
  EXPECT_EQ(VisiblePicture(p, std::nullopt), "");
  p.kv_len = 1000;
  EXPECT_EQ(VisiblePicture(p, std::nullopt), "");
  p.kv_len = 3;
  p.batch = 0;
  EXPECT_EQ(VisiblePicture(p, std::nullopt), "");
}

TEST(CaseFileName, IsSafeInAnyShellAndTellsKernelsApart) {
  Finding finding;
  finding.signature = {"a.b", Cause::kReadFault, "", ""};
  finding.kernel = "tiled?tile=16";
  EXPECT_EQ(CaseFileName(finding), "tiled-tile-16.a.b.read_fault.toml");
  finding.signature.cause_class = "one-key-too-many";
  EXPECT_EQ(CaseFileName(finding), "tiled-tile-16.a.b.read_fault.one-key-too-many.toml");
  finding.kernel = "./my kernel;rm.so";
  const std::string odd = CaseFileName(finding);
  EXPECT_EQ(odd.find_first_of(" ;/$'\""), std::string::npos);
  finding.kernel = "./my kernel rm.so";
  EXPECT_NE(CaseFileName(finding), odd);
}

TEST(ShellQuote, QuotesOnlyWhereNeeded) {
  EXPECT_EQ(ShellQuote("build/bin/attest"), "build/bin/attest");
  EXPECT_EQ(ShellQuote("tiled?tile=1"), "'tiled?tile=1'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellQuote(""), "''");
}

TEST(WitnessRow, OutsideTheCaseIsNone) {
  Problem p;
  p.q_len = 2;
  Verdict verdict;
  EXPECT_FALSE(WitnessRow(p, verdict));
  verdict.witness = Witness{{0, 0, 1, 0}, 0, 0, 0};
  EXPECT_TRUE(WitnessRow(p, verdict));
  verdict.witness->index[2] = 2;
  EXPECT_FALSE(WitnessRow(p, verdict));
}

TEST(ContractNotes, ComeOnlyWhereTheContractIsSilentAndItMatters) {
  const auto note = [](const char* contract, VerdictKind verdict, Cause cause) {
    KernelReport kernel = KernelWith("k", {ResultOf("k", "p", verdict, 1)});
    kernel.identity.contract_json = contract;
    kernel.contract.name = "attest-1";
    kernel.findings = {FindingOn("k", "p")};
    kernel.findings[0].finding.signature.cause = cause;
    return fmt::format("{}", fmt::join(ContractNotes(kernel), "\n"));
  };
  const char* bare = R"({"dtypes": ["f32"]})";
  const char* named = R"({"contract": "attest-1", "dtypes": ["f32"]})";
  EXPECT_THAT(note(bare, VerdictKind::kUnsupported, Cause::kValue),
              HasSubstr("declares no features"));
  EXPECT_EQ(note(bare, VerdictKind::kPass, Cause::kValue), "");
  EXPECT_THAT(note(named, VerdictKind::kFail, Cause::kRefused),
              HasSubstr("promises all those of attest-1: list"));
  EXPECT_EQ(note(named, VerdictKind::kFail, Cause::kValue), "");
  EXPECT_EQ(note(R"({"features": []})", VerdictKind::kUnsupported, Cause::kRefused), "");
}

TEST(ContractNotes, NameThePromiseThatAFindingRestsOnAndHowToMakeNone) {
  KernelReport kernel = KernelWith("k", {});
  kernel.contract.name = "attest-1";
  for (const char* property :
       {"padding.poison_in_padded_keys_does_not_matter",
        "padding.poison_in_padded_values_does_not_matter", "padding.padded_keys_do_not_matter"}) {
    kernel.findings.push_back(FindingOn("k", property));
  }
  kernel.identity.contract_json = R"({"contract": "attest-1", "features": []})";
  ASSERT_EQ(ContractNotes(kernel).size(), 1u);
  EXPECT_THAT(
      ContractNotes(kernel)[0],
      testing::AllOf(HasSubstr("naming attest-1: poison_safe k:length, poison_safe v:length."),
                     HasSubstr(R"("poison_safe": [])")));
  kernel.identity.contract_json =
      R"({"contract": "attest-1", "features": [], "poison_safe": ["k:length", "v:length"]})";
  EXPECT_TRUE(ContractNotes(kernel).empty());
}

}  // namespace
}  // namespace attest
