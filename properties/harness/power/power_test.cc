// What a run says of its kernel, and what the kills add up to, on reports written by hand.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "properties/harness/power/kill.h"
#include "properties/harness/power/leave_out.h"
#include "properties/harness/power/power_json.h"
#include "properties/harness/power/power_summary.h"
#include "properties/harness/power/power_text.h"

namespace attest {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kReference = "equivalence.matches_reference";
constexpr const char* kLabels = "heads.labels_come_back";
constexpr const char* kMemory = "memory.stays_inside_its_tensors";

std::vector<std::string> Ids() {
  std::vector<std::string> ids;
  for (const Property& property : AllProperties()) ids.emplace_back(property.id);
  return ids;
}

ReportedFinding FindingBy(const std::string& property, const std::string& cause_class, int64_t keys,
                          int64_t kernel_cases) {
  ReportedFinding reported;
  Finding& finding = reported.finding;
  finding.signature = {property, Cause::kValue, "out", cause_class};
  finding.verdict.kind = VerdictKind::kFail;
  finding.verdict.cause = Cause::kValue;
  finding.verdict.output = "out";
  finding.verdict.cause_class = cause_class;
  Problem& problem = finding.smallest.problem;
  problem.batch = problem.q_heads = problem.kv_heads = problem.q_len = 1;
  problem.head_dim = problem.value_dim = 1;
  problem.kv_len = keys;
  reported.found_by = property;
  reported.kernel_cases = kernel_cases;
  return reported;
}

PropertyResult Failed(const std::string& property, Cause cause, int64_t cases) {
  PropertyResult result;
  result.property = property;
  result.verdict = VerdictKind::kFail;
  result.first_cause = cause;
  result.cases_to_first = cases;
  return result;
}

// Killed by two properties, named by one of three findings, and small in the last.
KernelReport Faulty() {
  KernelReport kernel;
  kernel.results = {Failed(kReference, Cause::kValue, 7), Failed(kLabels, Cause::kValue, 3)};
  kernel.findings = {FindingBy(kReference, "", 9, 7),
                     FindingBy(kReference, "kv-head-mapping", 4, 12),
                     FindingBy(kLabels, "", 2, 60)};
  return kernel;
}

Subject Fault(const std::string& id, const std::string& causes = "kv-head-mapping") {
  return {"mutant:" + id, id, SubjectSort::kFault, "HEADS", causes};
}

TEST(KillOf, ReadsFirstSmallestAndCause) {
  const Kill kill = KillOf(Fault("a"), Faulty());
  ASSERT_TRUE(kill.first);
  EXPECT_EQ(kill.first->property, kReference);
  EXPECT_EQ(kill.first->cases, 7);
  EXPECT_EQ(kill.smallest.kv_len, 2);
  EXPECT_EQ(kill.named, "kv-head-mapping");
  EXPECT_TRUE(kill.named_rightly);
  EXPECT_FALSE(KillOf(Fault("a", "kv-head|heads"), Faulty()).named_rightly);
  ASSERT_NE(Quickest(kill), nullptr);
  EXPECT_EQ(Quickest(kill)->property, kLabels);
}

TEST(KillOf, InconclusiveFindingsKillNothing) {
  KernelReport kernel = Faulty();
  for (ReportedFinding& f : kernel.findings) f.finding.verdict.kind = VerdictKind::kInconclusive;
  for (PropertyResult& result : kernel.results) result.verdict = VerdictKind::kInconclusive;
  const Kill kill = KillOf(Fault("a"), kernel);
  EXPECT_FALSE(kill.first);
  EXPECT_THAT(kill.by, IsEmpty());
}

TEST(KillOf, AFaultOfMemoryIsAKillOfTheMemoryPropertiesAlone) {
  EXPECT_TRUE(IsOwnKill({kMemory, Cause::kUnwritten, 1}));
  EXPECT_FALSE(IsOwnKill({kLabels, Cause::kUnwritten, 1}));
  EXPECT_TRUE(IsOwnKill({kLabels, Cause::kNan, 1}));
}

TEST(Summarise, CountsMedianAndWorstOfTheKilled) {
  std::vector<Kill> kills;
  for (const int64_t cases : {5, 90, 7}) {
    kills.push_back(KillOf(Fault(std::to_string(cases)), Faulty()));
    kills.back().first->cases = cases;
  }
  kills.push_back(KillOf(Fault("missed"), KernelReport{}));
  const PowerSummary summary = Summarise(kills, Ids());
  EXPECT_EQ(summary.all.total, 4);
  EXPECT_EQ(summary.all.killed, 3);
  EXPECT_EQ(summary.all.median_cases, 7);
  EXPECT_EQ(summary.all.worst_cases, 90);
  EXPECT_EQ(summary.all.named, 3);
  EXPECT_EQ(summary.kinds.at("HEADS").total, 4);
  EXPECT_THAT(summary.missed, ElementsAre("missed"));
}

TEST(Summarise, KnowsWhoKillsAloneAndWhoNothing) {
  KernelReport by_labels = Faulty();
  by_labels.results.erase(by_labels.results.begin());
  const PowerSummary summary =
      Summarise({KillOf(Fault("a"), Faulty()), KillOf(Fault("b"), by_labels)}, Ids());
  const auto power = std::ranges::find(summary.properties, kLabels, &PropertyPower::property);
  ASSERT_NE(power, summary.properties.end());
  EXPECT_THAT(power->kills, ElementsAre("a", "b"));
  EXPECT_THAT(power->alone, ElementsAre("b"));
  EXPECT_EQ(power->fewest_others, 0);
  EXPECT_THAT(summary.Idle(), Contains(kMemory));
  EXPECT_THAT(summary.Idle(), Not(Contains(kReference)));
}

Kill KilledAfter(const std::string& kind, const std::string& property, int64_t cases) {
  Kill kill;
  kill.subject = Fault(kind + property);
  kill.subject.kind = kind;
  kill.by = {{property, Cause::kValue, cases}};
  return kill;
}

// What one kind teaches helps another that falls to the same property, and no other.
TEST(LeaveOneKindOut, OrdersByTheOtherKindsAlone) {
  const int64_t count = std::ssize(AllProperties());
  const std::string last(AllProperties().back().id);
  const auto rows = LeaveOneKindOut({KilledAfter("MASK", last, 3), KilledAfter("HEADS", last, 4),
                                     KilledAfter("HEADS", kMemory, 5)},
                                    {10});
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].kind, "HEADS");
  EXPECT_EQ(rows[0].now.worst, (count - 1) * 10 + 4);
  EXPECT_EQ(rows[1].kind, "MASK");
  EXPECT_EQ(rows[1].held_out.worst, 13)
      << "the memory property kills one of HEADS and stands first";
  EXPECT_EQ(rows[1].now.worst, (count - 1) * 10 + 3);
  EXPECT_EQ(rows[2].kind, "all");
  EXPECT_EQ(rows[2].mutants, 3);
}

TEST(LeaveOneKindOut, CountsCasesPassByPass) {
  const int64_t count = std::ssize(AllProperties());
  const std::string first(AllProperties().front().id);
  const auto rows =
      LeaveOneKindOut({KilledAfter("MASK", first, 12), KilledAfter("HEADS", first, 7)}, {10, 30});
  EXPECT_EQ(rows[0].held_out.worst, 7);
  EXPECT_EQ(rows[1].held_out.worst, 10 * count + 2);
}

TEST(Complaints, NameWhatIsAmiss) {
  Kill alarm = KillOf({"tiled", "tiled", SubjectSort::kCorrect, "", ""}, Faulty());
  const PowerSummary summary = Summarise({KillOf(Fault("missed"), KernelReport{}), alarm}, Ids());
  PowerInfo info;
  EXPECT_THAT(Complaints(info, summary),
              ElementsAre("MISSED: missed", HasSubstr("FALSE ALARM on what is correct: tiled")));
  info.is_matrix = true;
  EXPECT_THAT(Complaints(info, summary), Contains(HasSubstr("kill nothing: equivalence.")));
}

TEST(PowerJsonLines, ParseLineByLine) {
  const std::vector<Kill> kills = {KillOf(Fault("a"), Faulty())};
  PowerInfo info;
  info.is_matrix = true;
  std::istringstream text(PowerJsonLines(info, Summarise(kills, Ids()), kills, 1));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_THAT(lines, SizeIs(3 + AllProperties().size()));
  EXPECT_EQ(lines[1]["first"]["cases"], 7);
  EXPECT_EQ(lines.back()["all"]["killed"], 1);
}

// A letter a property, and what stands for it below.
TEST(PowerMarkdown, HoldsTheMatrix) {
  const std::vector<Kill> kills = {KillOf(Fault("a"), Faulty())};
  const std::string page = PowerMarkdown(PowerInfo(), Summarise(kills, Ids()), kills);
  EXPECT_THAT(page, HasSubstr("| a | HEADS | equivalence.matches_reference | 7 | 3 |"));
  EXPECT_THAT(page, HasSubstr("- heads:"));
  const size_t row = page.rfind("\na  ");
  ASSERT_NE(row, std::string::npos);
  EXPECT_EQ(std::count(page.begin() + static_cast<int64_t>(row), page.end(), 'X'), 2);
}

}  // namespace
}  // namespace attest
