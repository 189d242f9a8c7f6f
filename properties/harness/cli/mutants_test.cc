// The mutation gate: under plan smoke and a fixed seed, each seeded fault and each null kernel must
// be killed, by a named property and with a case small enough to read, and one of its findings must name
// the cause rightly. Prints one line a mutant.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "impl/mutants/mutants.h"
#include "properties/harness/cli/power_subjects.h"
#include "properties/harness/cli/run_program.h"
#include "properties/harness/power/kill.h"
#include "properties/harness/power/power_text.h"
#include "properties/harness/report/json_read.h"
#include "properties/kill_table.h"

namespace attest {

// Or GoogleTest prints the bytes.
void PrintTo(const Mutant& mutant, std::ostream* out) {
  *out << mutant.id;
}

namespace {

// Findings after which a run ends, of as many properties. The right cause must be named by one of them; that a
// majority of all findings puts it first is what `attest power` measures, at three times the cost.
constexpr const char* kEnough = "8";

// One row of the table mutant, first property and how soon, smallest case, expected and named cause.
void PrintLine(const Kill& kill) {
  std::fputs(KillLine(kill).c_str(), stdout);
}

// Leaves the ids of the properties that failed, for properties/README.md (attest_property_readme).
void RecordKills(const Kill& kill) {
  std::filesystem::create_directories(ATTEST_KILLS);
  std::ofstream file(std::filesystem::path(ATTEST_KILLS) / kill.subject.id);
  for (const PropertyKill& by : kill.by) file << by.property << "\n";
}

// Faults of which no finding here names the cause, and why.
const std::set<std::string_view> kNotNamed = {
    // Rows of NaN alone, or a sink alone, tell no floor of the maximum: it takes right rows beside them, of which no
    // smallest case here has any.
    "hidden-tile-guard",
};

// How many keys a fault needs to show: a third tile or second split, one past a full tile, or as many as an offset of
// 16 bits cannot reach.
int64_t LongestNeeded(Mutation mutation) {
  if (mutation == Mutation::kOffsetIn16Bits) return 4096;
  const bool needs_more_tiles =
      mutation == Mutation::kTileSkipped || mutation == Mutation::kLateRescaleMissing ||
      mutation == Mutation::kSplitLseInBase2 || mutation == Mutation::kSinkInEverySplit;
  return needs_more_tiles ? 9 : 5;
}

// How many queries: a whole tile of 64 where the fault lies in the path for them, a second tile of 4, or packed items of
// several rows.
int64_t MostQueriesNeeded(Mutation mutation) {
  if (mutation == Mutation::kMaskTileMisplaced || mutation == Mutation::kHiddenTileGuard ||
      mutation == Mutation::kPackedDoutOfItem0) {
    return 5;
  }
  return mutation == Mutation::kSoftcapTailAttended ? 64 : 3;
}

// How many components of q and k.
int64_t LargestHeadDimNeeded(Mutation mutation) {
  if (mutation == Mutation::kHeadDimCapped) return 65;
  return mutation == Mutation::kOffsetIn16Bits ? 16 : 3;
}

// How many batch items: three packed ones, or as many as it takes for one whose numbers are not 0 by chance.
int64_t MostItemsNeeded(Mutation mutation) {
  const bool needs_three =
      mutation == Mutation::kPackedSingleQuery || mutation == Mutation::kDeltaOmittedInLastRow;
  return needs_three ? 3 : 2;
}

// The plan that kills it. Three faults need more at once than the smoke plan's few cases bring together: a
// past, causality, a single query and several new keys; packed items of one query or none; a backward
// pass of packed items.
std::string PlanNeeded(Mutation mutation) {
  const bool is_rare = mutation == Mutation::kOneQueryNotCausal ||
                       mutation == Mutation::kPackedSingleQuery ||
                       mutation == Mutation::kPackedDoutOfItem0;
  return is_rare ? "quick" : "smoke";
}

// `attest check` with these arguments and a fixed seed; leaves run.json in the folder.
ProgramResult Check(std::vector<std::string> arguments, const std::string& folder) {
  arguments.insert(arguments.begin(), "check");
  arguments.insert(arguments.end(), {"--seed", "1", "--json", "run.json"});
  return RunAttest(arguments, folder);
}

// The properties that properties/README.md names for the mutant, as words for check; none for a mutant that it does
// not know.
std::vector<std::string> KnownKillers(std::string_view mutant) {
  std::stringstream text;
  text << std::ifstream(ATTEST_PROPERTY_README).rdbuf();
  const Kills kills = ReadKillsOfReadme(text.str());
  const auto known = kills.find(std::string(mutant));
  std::vector<std::string> words;
  if (known == kills.end()) return words;
  for (const std::string& property : known->second) {
    words.insert(words.end(), {"--property", property});
  }
  return words;
}

// What does not kill it costs time, so those that are known to kill it come first. Some are caught by a
// derived case of another property alone, or here by other properties than where the table was made.
ProgramResult CheckUntilKilled(const Mutant& mutant, const std::string& folder) {
  std::vector<std::string> words = {"mutant:" + std::string(mutant.id), "--plan",
                                    PlanNeeded(mutant.mutation), "--stop-after", kEnough};
  const std::vector<std::string> killers = KnownKillers(mutant.id);
  std::vector<std::string> few = words;
  few.insert(few.end(), killers.begin(), killers.end());
  ProgramResult run = Check(few, folder);
  return run.status == 1 || killers.empty() ? run : Check(words, folder);
}

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsKilledWithASmallCase) {
  const Mutant& mutant = GetParam();
  std::string folder = testing::TempDir() + "attest_mutant_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const Subject subject = SubjectOf(mutant);
  const ProgramResult run = CheckUntilKilled(mutant, folder);
  const auto lines = ReadJsonLinesOf(folder + "/run.json");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(lines) << lines.error() << run.err;
  ASSERT_EQ(run.status, 1) << mutant.does << "\n" << run.out << run.err;
  const Kill kill = KillOf(subject, lines->report.kernels.front());
  ASSERT_TRUE(kill.first);
  RecordKills(kill);
  PrintLine(kill);
  EXPECT_LE(kill.smallest.q_len, MostQueriesNeeded(mutant.mutation));
  EXPECT_LE(kill.smallest.kv_len, LongestNeeded(mutant.mutation));
  EXPECT_LE(kill.smallest.head_dim, LargestHeadDimNeeded(mutant.mutation));
  EXPECT_LE(kill.smallest.batch, MostItemsNeeded(mutant.mutation));
  // What depends on calls before, or beside, need not recur in a rerun.
  EXPECT_TRUE(kill.is_confirmed || mutant.kind == "STALE" || mutant.kind == "RACE");
  if (mutant.is_null()) return;
  EXPECT_TRUE(kill.named_somewhere || kNotNamed.contains(mutant.id)) << kill.shown;
}

std::string TestName(const testing::TestParamInfo<Mutant>& info) {
  std::string name(info.param.id);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Mutants, MutantTest, testing::ValuesIn(Mutants().begin(), Mutants().end()),
                         TestName);

ProgramResult CheckCorrect(const std::vector<std::string>& arguments) {
  std::string folder = testing::TempDir() + "attest_mutant_XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  ProgramResult run = RunAttest(arguments, folder);
  std::filesystem::remove_all(folder);
  return run;
}

// Without a fault the same kernels pass: what kills the mutants is the fault.
TEST(PlainKernel, Passes) {
  const ProgramResult run = CheckCorrect({"check", "mutant", "--plan", "smoke"});
  EXPECT_EQ(run.status, 0) << run.out << run.err;
}

TEST(BlockedKernel, Passes) {
  const ProgramResult run = CheckCorrect({"check", "mutant:blocked", "--plan", "smoke"});
  EXPECT_EQ(run.status, 0) << run.out << run.err;
}

}  // namespace
}  // namespace attest
