#include "properties/harness/report/merge_runs.h"

#include <algorithm>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/report/json_lines.h"
#include "properties/harness/report/testing.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string LinesOf(const RunReport& report, bool is_complete = true) {
  std::string text = RunLine(report);
  for (const KernelReport& kernel : report.kernels) {
    for (const ReportedFinding& finding : kernel.findings) text += FindingLine(finding);
    for (const PropertyResult& result : kernel.results) text += ResultLine(result);
  }
  const auto lines = std::count(text.begin(), text.end(), '\n');
  return is_complete ? text + SummaryLine(report, ExitCode(report), lines) : text;
}

RunReport Shard(int64_t index, int64_t count, std::vector<PropertyResult> results) {
  KernelReport kernel = KernelWith("k", std::move(results));
  kernel.identity.contract_json = R"({"contract": "attest-1"})";
  kernel.contract = *ParseContract(kernel.identity.contract_json);
  RunReport report = ReportOf({kernel});
  report.info.shard_index = index;
  report.info.shard_count = count;
  return report;
}

ReadRun Read(const RunReport& report, const std::string& path, bool is_complete = true) {
  auto run = ParseJsonLines(LinesOf(report, is_complete), path);
  EXPECT_TRUE(run) << run.error();
  return run ? std::move(*run) : ReadRun{};
}

TEST(JsonRead, LinesComeBackAsTheyWere) {
  RunReport report = Shard(1, 3, {ResultWithNumbers()});
  report.kernels[0].findings = {FindingOn("k", "equivalence.matches_reference")};
  report.kernels[0].stats.calls = 7;
  report.kernels[0].notes = {"a note"};
  const ReadRun run = Read(report, "a.jsonl");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(LinesOf(run.report), LinesOf(report));
}

TEST(JsonRead, SaysWhereALineIsWrong) {
  const auto empty = ParseJsonLines("", "a.jsonl");
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error(), HasSubstr("a.jsonl: holds no run"));
  const auto odd = ParseJsonLines(RunLine(Shard(0, 1, {})) + "{}\n", "a.jsonl");
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error(), HasSubstr("a.jsonl:2: lacks 'type'"));
}

TEST(JsonRead, ALostOrAddedLineIsNoticed) {
  const std::string lines = LinesOf(Shard(
      0, 1,
      {ResultOf("k", "p", VerdictKind::kPass, 5), ResultOf("k", "q", VerdictKind::kPass, 5)}));
  const size_t second = lines.find('\n') + 1, third = lines.find('\n', second) + 1;
  const auto lost = ParseJsonLines(lines.substr(0, second) + lines.substr(third), "a.jsonl");
  ASSERT_FALSE(lost);
  EXPECT_THAT(lost.error(), HasSubstr("a.jsonl:3: the run ends here after 3 lines, of which 2"));
  const auto twice = ParseJsonLines(lines + lines.substr(second, third - second), "a.jsonl");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error(), HasSubstr("a.jsonl:5: stands behind the line that ends the run"));
}

TEST(JsonRead, ErrorsAreInWordsOfItsOwn) {
  const std::string head = RunLine(Shard(0, 1, {}));
  const std::pair<const char*, const char*> table[] = {
      {"{\"type\": \"result\"\n", "is no JSON from byte 18 on"},
      {"{\"type\": 3}\n", "'type' is a number"},
      {"{\"type\": \"result\", \"kernel\": \"k\"}\n", "lacks 'property'"},
      {"[]\n", "lacks 'type'"},
      {"{\"type\": \"summary\", \"exit_code\": 0, \"lines\": \"x\"}\n", "not as attest writes it"}};
  for (const auto& [line, says] : table) {
    const auto run = ParseJsonLines(head + line, "a.jsonl");
    ASSERT_FALSE(run);
    EXPECT_THAT(run.error(), HasSubstr(says));
    EXPECT_THAT(run.error(), Not(HasSubstr("exception")));
  }
}

TEST(JsonRead, HalfALastLineIsLeftOut) {
  const std::string lines = LinesOf(Shard(0, 1, {ResultOf("k", "p", VerdictKind::kPass, 5)}));
  const auto run = ParseJsonLines(lines.substr(0, lines.size() - 9), "a.jsonl");
  ASSERT_TRUE(run) << run.error();
  EXPECT_THAT(run->report.kernels[0].results, SizeIs(1));
  EXPECT_FALSE(run->exit_code);
}

TEST(MergeRuns, AddsUpShardsInAnyOrder) {
  const auto merged =
      MergeRuns({Read(Shard(1, 2, {ResultOf("k", "p", VerdictKind::kMarginal, 5)}), "b"),
                 Read(Shard(0, 2, {ResultOf("k", "p", VerdictKind::kPass, 7)}), "a")});
  ASSERT_TRUE(merged) << merged.error();
  EXPECT_TRUE(merged->complete);
  EXPECT_THAT(merged->amiss, IsEmpty());
  const PropertyResult& result = merged->report.kernels[0].results[0];
  EXPECT_EQ(result.verdict, VerdictKind::kMarginal);
  EXPECT_EQ(result.cases_run(), 12);
  EXPECT_EQ(result.wanted, 12);
  EXPECT_EQ(merged->report.info.shard_count, 1);
  EXPECT_EQ(merged->report.info.joined, "all 2 shards");
}

TEST(MergeRuns, WhatIsMissingOrTwiceOrUnfinishedIsSaid) {
  const RunReport shard = Shard(0, 3, {ResultOf("k", "p", VerdictKind::kPass, 7)});
  const RunReport other = Shard(2, 3, {ResultOf("k", "p", VerdictKind::kPass, 7)});
  const auto merged =
      MergeRuns({Read(shard, "a"), Read(shard, "b"), Read(other, "c", /*is_complete=*/false)});
  ASSERT_TRUE(merged) << merged.error();
  EXPECT_FALSE(merged->complete);
  EXPECT_THAT(merged->amiss,
              ElementsAre("shard 0/3 comes twice: a is used, b left out", "shard 1/3 is missing",
                          "c: shard 2/3 did not come to its end"));
  EXPECT_EQ(merged->report.kernels[0].results[0].cases_run(), 14);
  EXPECT_EQ(merged->report.info.joined, "shards 0, 2 of 3");
}

TEST(MergeRuns, RefusesWhatIsNotOfOneRun) {
  const RunReport one = Shard(0, 2, {});
  RunReport other = Shard(1, 2, {});
  const auto differ = [&] {
    const auto merged = MergeRuns({Read(one, "a"), Read(other, "b")});
    return merged ? std::string("merged") : merged.error();
  };
  EXPECT_EQ(differ(), "merged");
  other.info.seed = 2;
  EXPECT_THAT(differ(), HasSubstr("a and b are not of one run: they differ in seed (1 and 2)"));
  other.info.seed = 1;
  other.info.plan = "ci";
  EXPECT_THAT(differ(), HasSubstr("plan"));
  other.info.plan = one.info.plan;
  other.info.properties = {"heads.*", "masks.*"};
  EXPECT_THAT(differ(), HasSubstr("they differ in --property (all and heads.* masks.*)"));
  other.info.properties.clear();
  other.kernels[0].identity.version = "2.0";
  EXPECT_THAT(differ(), HasSubstr("version of k (1.0 and 2.0)"));
}

TEST(MergeRuns, OneSignatureIsOneFindingAndTheSmallerCase) {
  RunReport one = Shard(0, 2, {ResultOf("k", "p.q", VerdictKind::kFail, 1)});
  RunReport two = Shard(1, 2, {ResultOf("k", "p.q", VerdictKind::kFail, 1)});
  one.kernels[0].findings = {FindingOn("k", "p.q")};
  two.kernels[0].findings = {FindingOn("k", "p.q")};
  two.kernels[0].findings[0].finding.smallest.problem.kv_len = 2;
  const auto merged = MergeRuns({Read(one, "a"), Read(two, "b")});
  ASSERT_TRUE(merged) << merged.error();
  ASSERT_THAT(merged->report.kernels[0].findings, SizeIs(1));
  EXPECT_EQ(merged->report.kernels[0].findings[0].finding.smallest.problem.kv_len, 2);
  EXPECT_EQ(ExitCode(merged->report), 1);
}

TEST(MergeRuns, AShardCutShortLeavesItInconclusive) {
  RunReport cut = Shard(1, 2, {ResultOf("k", "p", VerdictKind::kPass, 2)});
  PropertyResult& result = cut.kernels[0].results[0];
  result.wanted = 5;
  result.verdict = VerdictKind::kInconclusive;
  result.reason = "out of time after 2 of 5 cases";
  for (const bool cut_first : {false, true}) {
    const RunReport whole = Shard(
        0, 2, {ResultOf("k", "p", cut_first ? VerdictKind::kMarginal : VerdictKind::kPass, 5)});
    const auto merged = MergeRuns({Read(whole, "a"), Read(cut, "b")});
    ASSERT_TRUE(merged) << merged.error();
    const PropertyResult& joined = merged->report.kernels[0].results[0];
    EXPECT_EQ(joined.verdict, VerdictKind::kInconclusive);
    EXPECT_EQ(joined.reason, "shard 1/2: out of time after 2 of 5 cases");
  }
}

TEST(MergeRuns, NightsMayHaveOtherSeeds) {
  RunReport monday = Shard(0, 1, {ResultOf("k", "p", VerdictKind::kPass, 5)});
  monday.info.plan = kNightPlan;
  RunReport tuesday = monday;
  tuesday.info.seed = 2;
  const auto merged = MergeRuns({Read(monday, "a"), Read(tuesday, "b")});
  ASSERT_TRUE(merged) << merged.error();
  EXPECT_TRUE(merged->complete);
  EXPECT_EQ(merged->report.kernels[0].results[0].cases_run(), 10);
}

}  // namespace
}  // namespace attest
