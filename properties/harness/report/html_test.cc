#include "properties/harness/report/html.h"

#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pugixml.hpp>

#include "properties/harness/report/clean_text.h"
#include "properties/harness/report/testing.h"

namespace attest {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "<script>alert(1)</script>\"'&|`\x01\xff";

// The page as a tree; every element in it is closed, but for <meta>.
struct Page {
  explicit Page(const RunReport& report) : text(HtmlPage(report)) {
    const size_t body = text.find("<body>");
    const auto parsed = tree.load_string(text.substr(body, text.rfind("</html>") - body).c_str());
    EXPECT_TRUE(parsed) << parsed.description();
  }
  size_t Count(const char* path) const { return tree.select_nodes(path).size(); }
  std::string TextOf(const char* path) const {
    std::string all;
    for (const auto& node : tree.select_nodes((std::string(path) + "//text()").c_str())) {
      all += node.node().value();
    }
    return all;
  }

  std::string text;
  pugi::xml_document tree;
};

KernelReport Failing(size_t findings) {
  KernelReport kernel =
      KernelWith("k", {ResultOf("k", "heads.labels_come_back", VerdictKind::kFail, 3)});
  for (size_t i = 0; i < findings; ++i) {
    kernel.findings.push_back(FindingOn("k", "heads.labels_come_back"));
  }
  return kernel;
}

CaseView ViewOf() {
  CaseView view;
  view.row = {"out", {0, 0, 0}, "informative", 0, {{0, 1, 2, 1, 0.5, 0.25}}};
  view.weights =
      WeightsView{{0, 0, 0}, {true, false, true}, {0.25, 0, 0.75}, {0.5, 0.125, 0.375}, true};
  view.map.output = "out";
  view.map.rows = {{0, 0, 0}, {0, 1, 0}};
  view.map.ratios = {
      {2, 0.5},
      {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}};
  view.map.rows_in_all = 2;
  view.map.lanes_in_all = 2;
  return view;
}

TEST(HtmlPage, ShowsEveryVerdictAsAWord) {
  std::vector<PropertyResult> results;
  for (const VerdictKind kind : {VerdictKind::kPass, VerdictKind::kFail, VerdictKind::kMarginal,
                                 VerdictKind::kUnsupported, VerdictKind::kInconclusive}) {
    results.push_back(ResultOf("k", "a." + std::to_string(results.size()), kind, 7));
  }
  results.push_back(results[1]);
  results.back().property = "b.0";
  results.back().waived = true;
  const Page page(ReportOf({KernelWith("k", results)}));
  const std::string matrix = page.TextOf("//section[@id='matrix']");
  for (const char* word :
       {"PASS", "FAIL", "MARGINAL", "UNSUPPORTED", "INCONCLUSIVE", "WAIVED", "not shown"}) {
    EXPECT_THAT(matrix, HasSubstr(word));
  }
  EXPECT_EQ(page.Count("//tr[th[@scope='rowgroup']]"), 3u) << "the ladder and two families";
  EXPECT_THAT(page.TextOf("//section[@id='kernels']"), HasSubstr("no causal masking"));
}

TEST(HtmlPage, StandsAloneAndRunsNothing) {
  const Page page(ReportOf({Failing(1)}));
  EXPECT_THAT(page.text, HasSubstr("default-src 'none'; style-src 'unsafe-inline'"));
  EXPECT_THAT(page.text, testing::StartsWith("<!DOCTYPE html>\n<html lang=\"en\">"));
  EXPECT_EQ(page.Count("//script | //img | //link | //iframe | //object | //form"), 0u);
  EXPECT_THAT(page.text, AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://")),
                               Not(HasSubstr("url(")), Not(HasSubstr("@import"))));
  for (const auto& link : page.tree.select_nodes("//a/@href")) {
    EXPECT_THAT(link.attribute().value(),
                testing::AnyOf(testing::StartsWith("#"), testing::StartsWith("./")));
  }
}

TEST(HtmlPage, EveryLinkWithinItHasATargetAndIdsAreUnique) {
  KernelReport other = Failing(2);
  other.kernel = "other";
  const Page page(ReportOf({Failing(3), other}));
  std::set<std::string> ids;
  for (const auto& id : page.tree.select_nodes("//@id")) {
    EXPECT_TRUE(ids.insert(id.attribute().value()).second) << id.attribute().value();
  }
  EXPECT_EQ(ids.count("f5"), 1u);
  for (const auto& link : page.tree.select_nodes("//a/@href")) {
    const std::string target = link.attribute().value();
    if (target[0] != '#') continue;
    EXPECT_EQ(ids.count(target.substr(1)), 1u) << target;
  }
}

TEST(HtmlPage, AKernelsWordsAreTextWhereverTheyStand) {
  KernelReport kernel = Failing(1);
  kernel.kernel = kernel.identity.name = kernel.identity.version = kernel.contract.name = kHostile;
  kernel.identity.contract_json = kHostile;
  kernel.results[0].reason = kHostile;
  kernel.findings[0].finding.kernel = kHostile;
  kernel.findings[0].finding.verdict.sentence = kHostile;
  kernel.findings[0].command = kHostile;
  kernel.findings[0].waived = kHostile;
  KernelReport skipped = KernelWith(kHostile, {});
  skipped.skipped = kHostile;
  RunReport report = ReportOf({kernel, skipped});
  report.info.command = kHostile;
  const Page page(report);
  EXPECT_EQ(page.Count("//script"), 0u);
  EXPECT_THAT(page.text, Not(HasSubstr("<script")));
  EXPECT_THAT(page.text, AllOf(Not(HasSubstr("\x01")), Not(HasSubstr("\xff"))));
  EXPECT_THAT(page.TextOf("//article[@id='f1']"), HasSubstr("<script>alert(1)</script>"));
}

TEST(HtmlPage, SaysSoWhereNothingWasFoundOrRun) {
  const Page clean(ReportOf({KernelWith("k", {ResultOf("k", "a.b", VerdictKind::kPass, 1)})}));
  EXPECT_THAT(clean.TextOf("//section[@id='findings']"), HasSubstr("None."));
  EXPECT_THAT(clean.TextOf("//main"), HasSubstr("exit status 0"));
  KernelReport skipped = KernelWith("onnx", {});
  skipped.skipped = "not installed";
  const Page none(ReportOf({skipped}));
  EXPECT_THAT(none.TextOf("//main"),
              AllOf(HasSubstr("No kernel was run."), HasSubstr("skipped: not installed")));
  EXPECT_THAT(Page(ReportOf({})).TextOf("//main"), HasSubstr("exit status 2"));
}

TEST(HtmlPage, DrawsWhatTheRowSeesItsWeightsAndTheErrors) {
  KernelReport kernel = Failing(1);
  kernel.findings[0].view = ViewOf();
  const Page page(ReportOf({kernel}));
  EXPECT_EQ(page.Count("//figure"), 4u);
  EXPECT_EQ(page.Count("//figure//td[@class='seen']"), 3u);
  EXPECT_THAT(page.TextOf("//article[@id='f1']"),
              AllOf(HasSubstr("observed by running the case with V one-hot"), HasSubstr("0.125"),
                    HasSubstr("\xe2\x88\x9e")));
  EXPECT_EQ(page.Count("//figure//td[contains(@class, 'over')]"), 2u);
  EXPECT_EQ(page.Count("//figure//tr[@class='at']"), 3u) << "row, visible set, map";
}

TEST(HtmlPage, HundredsOfFindingsStayWithinBounds) {
  KernelReport kernel = Failing(2000);
  for (ReportedFinding& reported : kernel.findings) {
    reported.finding.smallest.problem.q_len = 32;
    reported.finding.smallest.problem.kv_len = 64;
    reported.finding.verdict.sentence = std::string(5000, '<');
  }
  const Page page(ReportOf({kernel}));
  EXPECT_LT(page.text.size(), 6'000'000u);
  EXPECT_EQ(page.Count("//article[contains(@class, 'finding')]"), 300u);
  const std::string findings = page.TextOf("//section[@id='findings']");  // megabytes: not printed
  EXPECT_NE(findings.find("1700 more findings"), std::string::npos);
  EXPECT_GT(page.Count("//figure"), 5u);
  EXPECT_LT(page.Count("//figure"), 100u);
}

TEST(CleanText, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(CleanText("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82\n"),
            "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82\n");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(CleanText("\x01x"), bad + "x");
  EXPECT_EQ(CleanText("\xff"), bad);
  EXPECT_EQ(CleanText("\xc3"), bad) << "cut short";
  EXPECT_EQ(CleanText("\xc0\x80"), bad + bad) << "overlong";
  EXPECT_EQ(CleanText("\xed\xa0\x80"), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(CleanText("a\xe2\x80\xae"
                      "b"),
            "a" + bad + "b")
      << "right-to-left override";
  EXPECT_EQ(CleanText("abcdefgh", 8), "abcde\xe2\x80\xa6");
}

}  // namespace
}  // namespace attest
