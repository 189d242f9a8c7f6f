// attest power as a user meets it: the real program on a mutant or two.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

using testing::HasSubstr;

class PowerProgram : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_power_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ProgramResult Power(std::vector<std::string> words) const {
    words.insert(words.begin(), {"power", "--plan", "smoke", "--stop-after", "1"});
    return RunAttest(words, folder_);
  }

  std::string folder_;
};

TEST_F(PowerProgram, SaysHowSoonAMutantIsKilledAndOfWhat) {
  const ProgramResult run = Power(
      {"--mutant", "mutant:kv-head-m*", "--json", "power.json", "--report", "r", "--kills", "k"});
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("HEADS    killed by equivalence.matches_reference after "));
  EXPECT_THAT(run.out, HasSubstr("cause kv-head-mapping (right)"));
  const auto lines = ReadJsonLines(folder_ + "/power.json");
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines.front()["type"], "power");
  EXPECT_EQ(lines[1]["id"], "kv-head-modulo");
  EXPECT_EQ(lines[1]["killed"], true);
  EXPECT_EQ(lines.back()["exit_code"], 0);
  EXPECT_THAT(ReadText(folder_ + "/r/power.md"), HasSubstr("| kv-head-modulo | HEADS |"));
  EXPECT_THAT(ReadText(folder_ + "/k/kv-head-modulo"),
              HasSubstr("equivalence.matches_reference\n"));
}

TEST_F(PowerProgram, AnUnknownMutantIsBadInput) {
  const ProgramResult run = Power({"--mutant", "nonsense"});
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.err,
            "attest: --mutant nonsense: matches no mutant: 'attest list mutants' shows them\n");
}

TEST_F(PowerProgram, WhatIsNotRunInTimeIsSaid) {
  const ProgramResult run = Power({"--for", "1s", "--jobs", "1"});
  EXPECT_NE(run.status, 0);
  EXPECT_THAT(run.out, HasSubstr("not run: out of time"));
  EXPECT_THAT(run.out, HasSubstr("\nnot run: "));
}

// The limits of check that power relies on.
std::vector<nlohmann::json> LinesOf(const std::string& folder, const std::string& type) {
  std::vector<nlohmann::json> lines;
  for (const auto& line : ReadJsonLines(folder + "/run.json")) {
    if (line["type"] == type) lines.push_back(line);
  }
  return lines;
}

TEST_F(PowerProgram, MaxFindingsShrinksOneAndNamesAllThatFail) {
  const ProgramResult run =
      RunAttest({"check", "mutant:kv-head-modulo", "--property", "heads.*", "--plan", "smoke",
                 "--max-findings", "1", "--json", "run.json"},
                folder_);
  EXPECT_EQ(run.status, 1) << run.out << run.err;
  EXPECT_EQ(LinesOf(folder_, "finding").size(), 1u);
  for (const auto& result : LinesOf(folder_, "result")) {
    EXPECT_EQ(result["verdict"], "FAIL") << result;
    EXPECT_GE(result["cases_to_first"], 1) << result;
    EXPECT_EQ(result["first_cause"], "value") << result;
  }
}

TEST_F(PowerProgram, StopAfterEndsTheRunWithItsFinding) {
  const ProgramResult run =
      RunAttest({"check", "mutant:kv-head-modulo", "--property", "heads.*", "--plan", "smoke",
                 "--stop-after", "1", "--json", "run.json"},
                folder_);
  EXPECT_EQ(run.status, 1) << run.out << run.err;
  EXPECT_EQ(LinesOf(folder_, "finding").size(), 1u);
  const auto results = LinesOf(folder_, "result");
  ASSERT_GE(results.size(), 2u);
  EXPECT_LT(results.front()["cases_run"], 40);
  EXPECT_EQ(results.back()["cases_run"], 0);
  EXPECT_THAT(results.back()["reason"], HasSubstr("not run: the kernel has 1 finding"));
}

}  // namespace
}  // namespace attest
