// attest fuzz and attest merge as a user meets them. A script stands for the fuzz targets, so that the tests
// need no clang; harness/night/kill_test.sh is the long test with real ones.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kMutant = "mutant:kv-head-modulo";

class NightTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_night_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(folder_ + "/targets");
    fs::create_directories(folder_ + "/judges");
    fs::create_directories(folder_ + "/seeds");
    const std::string fake =
        std::string(ATTEST_SOURCE_DIR) + "/properties/harness/cli/testdata/fake_fuzz_target.sh";
    fs::copy(fake, folder_ + "/targets/fuzz_kernel");
    fs::copy(fake, folder_ + "/judges/fuzz_kernel");
    std::ofstream(folder_ + "/judges/fuzz_kernel", std::ios::app) << "# __asan_init\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  ProgramResult Run(const std::vector<std::string>& arguments) const {
    return RunAttest(arguments, folder_);
  }
  std::vector<nlohmann::json> Lines(const std::string& file, const std::string& type) const {
    std::vector<nlohmann::json> lines;
    for (const auto& line : ReadJsonLines(folder_ + "/" + file)) {
      if (line["type"] == type) lines.push_back(line);
    }
    return lines;
  }
  // Sorted: how often each signature is in the file.
  std::map<std::string, int> Signatures(const std::string& file) const {
    std::map<std::string, int> signatures;
    for (const auto& line : Lines(file, "finding")) ++signatures[line["signature"]];
    return signatures;
  }
  // Signatures without the class, which a larger case need not show.
  std::set<std::string> Claims(const std::string& file) const {
    std::set<std::string> claims;
    for (const auto& line : Lines(file, "finding")) {
      claims.insert(line["property"].get<std::string>() + "/" + line["cause"].get<std::string>());
    }
    return claims;
  }
  std::vector<std::string> Night(const std::string& kernel, const std::string& time) const {
    return {"fuzz",      kernel,    "--for",      time,        "--jobs",   "2",
            "--targets", "targets", "--targets",  "judges",    "--report", "night",
            "--seeds",   "seeds",   "--property", "row_sums.*"};
  }

  std::string folder_;
};

TEST_F(NightTest, RawFindingsAreConfirmedSavedAndKeptOverKills) {
  // What the fake target finds: cases that fail, and one that does not.
  ASSERT_EQ(Run({"check", kMutant, "--plan", "smoke", "--property", "heads.*", "--report", "cases",
                 "--json", "check.jsonl"})
                .status,
            1);
  const auto expected = Claims("check.jsonl");
  ASSERT_THAT(expected, Not(IsEmpty()));
  ::setenv("FAKE_CASES", (folder_ + "/cases").c_str(), 1);
  for (const int milliseconds : {300, 900, 1500}) {
    Program killed(Night(kMutant, "60s"), folder_);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    killed.Signal(SIGKILL);
    killed.Wait();
  }
  // A busy machine may need more than one start to hand over all cases.
  const auto is_missing = [&] {
    const auto found = Claims("night/run.jsonl");
    return std::ranges::any_of(expected, [&](const auto& one) { return !found.contains(one); });
  };
  for (int start = 0; start == 0 || (start < 5 && is_missing()); ++start) {
    const ProgramResult last = Run(Night(kMutant, "4s"));
    EXPECT_EQ(last.status, 1) << last.err;
  }
  EXPECT_FALSE(is_missing());
  const auto found = Signatures("night/run.jsonl");
  for (const auto& [signature, count] : found) EXPECT_EQ(count, 1) << signature;
  for (const auto& line : Lines("night/run.jsonl", "finding")) {
    EXPECT_TRUE(fs::exists(folder_ + "/" + line["case_file"].get<std::string>()));
  }
  EXPECT_TRUE(fs::exists(folder_ + "/night/index.html"));
  EXPECT_TRUE(fs::exists(folder_ + "/night/report.md"));
  const auto fuzzed = Lines("night/run.jsonl", "fuzz");
  ASSERT_THAT(fuzzed, SizeIs(1));
  EXPECT_GT(fuzzed[0]["executions"], 0);
  EXPECT_GT(fuzzed[0]["corpus"], 0);
  // Again: what is known stays, and nothing is found twice.
  EXPECT_EQ(Run(Night(kMutant, "1s")).status, 1);
  const auto again = Signatures("night/run.jsonl");
  for (const auto& [signature, count] : found) EXPECT_TRUE(again.contains(signature)) << signature;
  for (const auto& [signature, count] : again) EXPECT_EQ(count, 1) << signature;
  ::unsetenv("FAKE_CASES");
}

TEST_F(NightTest, WhatFailsInNoWorkerIsInconclusive) {
  // A case of the mutant's, on a kernel that passes it.
  ASSERT_EQ(Run({"check", kMutant, "--plan", "smoke", "--property", "heads.*", "--report", "cases"})
                .status,
            1);
  ::setenv("FAKE_CASES", (folder_ + "/cases").c_str(), 1);
  const ProgramResult result = Run(Night("tiled", "4s"));
  ::unsetenv("FAKE_CASES");
  EXPECT_EQ(result.status, 2) << result.out;
  EXPECT_THAT(result.out, HasSubstr("in none of 3 runs in a worker"));
}

TEST_F(NightTest, AnInputThatEndsItsTargetEachTimeIsAFinding) {
  ::setenv("FAKE_CRASH", "Attend", 1);
  const ProgramResult result = Run(Night("tiled", "4s"));
  ::unsetenv("FAKE_CRASH");
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  const auto findings = Lines("night/run.jsonl", "finding");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0]["cause"], "crash");
  EXPECT_THAT(findings[0]["sentence"], HasSubstr("in 3 of 3 runs"));
  EXPECT_THAT(findings[0]["sentence"], HasSubstr("AddressSanitizer: heap-buffer-overflow"));
}

TEST_F(NightTest, WhatOnlyASanitizerSeesIsAFindingForEachFunction) {
  for (const char* function : {"Attend", "Rescale"}) {
    ::setenv("FAKE_CRASH", function, 1);
    const ProgramResult result = Run(Night("tiled", "4s"));
    EXPECT_EQ(result.status, 1) << result.out << result.err;
  }
  ::unsetenv("FAKE_CRASH");
  std::set<std::string> classes;
  for (const auto& line : Lines("night/run.jsonl", "finding")) classes.insert(line["class"]);
  EXPECT_EQ(classes, (std::set<std::string>{"heap-buffer-overflow-in-Attend",
                                            "heap-buffer-overflow-in-Rescale"}));
}

// Attention of one key is its value; with `factor` 2 it is wrong.
std::string KernelWithFactor(int factor) {
  return "import numpy as np\n"
         "CONTRACT = {'contract': 'attest-1', 'dtypes': ['f32'], 'features': [], 'lse': 'none'}\n"
         "def attention(q, k, v, *, scale):\n"
         "    scores = q @ np.swapaxes(k, 2, 3) * np.float32(scale)\n"
         "    weights = np.exp(scores - scores.max(axis=3, keepdims=True))\n"
         "    return weights @ v / weights.sum(axis=3, keepdims=True) * " +
         std::to_string(factor) + "\n";
}

TEST_F(NightTest, AKernelThatHasChangedIsAskedAgainForWhatItShowed) {
  const auto night = [&](int factor) {
    std::ofstream(folder_ + "/mine.py") << KernelWithFactor(factor);
    return Run({"fuzz", "python:mine.py", "--for", "2s", "--targets", "none", "--property",
                "row_sums.ones_give_one", "--report", "night"});
  };
  const ProgramResult wrong = night(2);
  EXPECT_EQ(wrong.status, 1) << wrong.out << wrong.err;
  const auto shown = Signatures("night/run.jsonl");
  ASSERT_THAT(shown, Not(IsEmpty()));
  // The same file: nothing is doubted.
  const ProgramResult same = night(2);
  EXPECT_EQ(same.status, 1);
  const auto still_shown = Signatures("night/run.jsonl");
  for (const auto& [signature, count] : shown) {
    EXPECT_TRUE(still_shown.contains(signature)) << signature;
  }
  EXPECT_THAT(same.out, Not(HasSubstr("no longer seen")));

  const ProgramResult right = night(1);
  EXPECT_TRUE(right.status == 0 || right.status == 2) << right.out << right.err;
  EXPECT_THAT(Signatures("night/run.jsonl"), IsEmpty());
  for (const auto& [signature, count] : shown) {
    EXPECT_THAT(right.out, HasSubstr("no longer seen in 3 runs"));
    EXPECT_THAT(right.out, HasSubstr(signature));
  }
  const ProgramResult wrong_again = night(2);
  EXPECT_EQ(wrong_again.status, 1);
  const auto shown_again = Signatures("night/run.jsonl");
  for (const auto& [signature, count] : shown) {
    EXPECT_EQ(shown_again.contains(signature) ? shown_again.at(signature) : 0, 1) << signature;
  }
  EXPECT_THAT(wrong_again.out, Not(HasSubstr("no longer seen")));
}

TEST_F(NightTest, WithoutTargetsItSearchesByPropertiesUntilItsTimeIsOver) {
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result = Run({"fuzz", "tiled", "--for", "2s", "--targets", "none",
                                    "--property", "row_sums.ones_give_one", "--report", "night"});
  // 2 where a busy machine had no time for forty cases.
  EXPECT_TRUE(result.status == 0 || result.status == 2) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("the property search alone"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  const auto results = Lines("night/run.jsonl", "result");
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0]["verdict"], result.status == 0 ? "PASS" : "INCONCLUSIVE");
}

TEST_F(NightTest, AnInterruptedNightLeavesAReport) {
  Program night(Night("tiled", "600s"), folder_);
  while (!fs::exists(folder_ + "/night/corpus")) {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  night.Signal(SIGINT);
  const ProgramResult result = night.Wait();
  EXPECT_TRUE(result.status == 0 || result.status == 2) << result.status << result.err;
  EXPECT_THAT(Lines("night/run.jsonl", "summary"), SizeIs(1));
  EXPECT_TRUE(fs::exists(folder_ + "/night/index.html"));
}

TEST_F(NightTest, BadInputIsExitThree) {
  EXPECT_EQ(Run({"fuzz"}).status, 3);
  EXPECT_EQ(Run({"fuzz", "nope", "--for", "1s"}).status, 3);
  EXPECT_EQ(Run({"fuzz", "tiled", "--for", "soon"}).status, 3);
  const ProgramResult no_targets = Run({"fuzz", "tiled", "--targets", "/nowhere"});
  EXPECT_EQ(no_targets.status, 3);
  EXPECT_THAT(no_targets.err, HasSubstr("/nowhere"));
  EXPECT_EQ(Run({"merge"}).status, 3);
  const ProgramResult no_file = Run({"merge", "nope.jsonl"});
  EXPECT_EQ(no_file.status, 3);
  EXPECT_THAT(no_file.err, HasSubstr("nope.jsonl"));
}

// What a result line must have in common however the cases were spread.
nlohmann::json Comparable(nlohmann::json line) {
  for (const char* own : {"seconds", "calls", "cases_to_first", "findings"}) line.erase(own);
  return line;
}

TEST_F(NightTest, ShardsMergedAreTheWholeRun) {
  const std::vector<std::string> check = {"check",      "reference",  kMutant,
                                          "--plan",     "smoke",      "--property",
                                          "row_sums.*", "--property", "heads.*"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), check.begin(), check.end());
    return Run(more);
  };
  ASSERT_EQ(with({"--json", "whole.jsonl", "--report", "whole"}).status, 1);
  for (const std::string i : {"0", "1", "2"}) {
    with({"--shard", i + "/3", "--json", i + ".jsonl", "--report", "shard"});
  }
  const ProgramResult merged = Run(
      {"merge", "2.jsonl", "0.jsonl", "1.jsonl", "--json", "merged.jsonl", "--report", "merged"});
  EXPECT_EQ(merged.status, 1) << merged.err;
  EXPECT_EQ(merged.err, "");
  const auto whole = Lines("whole.jsonl", "result"), joined = Lines("merged.jsonl", "result");
  ASSERT_EQ(joined.size(), whole.size());
  int compared = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(joined[i]["property"], whole[i]["property"]);
    EXPECT_EQ(joined[i]["verdict"], whole[i]["verdict"]) << whole[i];
    EXPECT_EQ(joined[i]["cases_wanted"], whole[i]["cases_wanted"]);
    // Where every case drawn said something both have run the same cases.
    if (whole[i]["not_applicable"] == 0 && whole[i]["unsupported_reasons"].empty() &&
        whole[i]["kernel"] == "reference") {
      ++compared;
      EXPECT_EQ(Comparable(joined[i]), Comparable(whole[i]));
    }
  }
  EXPECT_GT(compared, 0);
  EXPECT_EQ(Claims("merged.jsonl"), Claims("whole.jsonl"));
  for (const auto& [signature, count] : Signatures("merged.jsonl")) {
    EXPECT_EQ(count, 1) << signature;
  }
  EXPECT_EQ(Lines("merged.jsonl", "summary")[0]["exit_code"], 1);
  EXPECT_TRUE(fs::exists(folder_ + "/merged/index.html"));
  EXPECT_THAT(merged.out, HasSubstr("seed 1, joined from all 3 shards\n"));
  fs::remove_all(folder_ + "/shard");  // it is not needed any longer
  ASSERT_THAT(Lines("merged.jsonl", "finding"), Not(IsEmpty()));
  for (const auto& finding : Lines("merged.jsonl", "finding")) {
    const std::string file = finding["case_file"];
    EXPECT_THAT(file, testing::StartsWith("merged/"));
    EXPECT_TRUE(fs::exists(folder_ + "/" + file)) << file;
    EXPECT_THAT(finding["replay"].get<std::string>(), HasSubstr(file));
  }

  const ProgramResult partial = Run({"merge", "0.jsonl", "2.jsonl", "2.jsonl"});
  EXPECT_THAT(partial.out, HasSubstr("joined from shards 0, 2 of 3: not the whole run"));
  EXPECT_THAT(partial.err, HasSubstr("shard 1/3 is missing"));
  EXPECT_THAT(partial.err, HasSubstr("shard 2/3 comes twice"));
  const ProgramResult foreign = Run({"merge", "0.jsonl", "whole.jsonl"});
  EXPECT_EQ(foreign.status, 3);
  EXPECT_THAT(foreign.err, HasSubstr("not of one run"));
}

}  // namespace
}  // namespace attest
