// Whether a report keeps two faults of one kernel apart, and names no cause that a larger case contradicts; with the real
// program.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

using testing::HasSubstr;

class TwoFaults : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_two_faults_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The plug-in with these options.
  static std::string Kernel(const std::string& options) {
    return BinFolder() + "/../testdata/two_faults.so?" + options;
  }

  ProgramResult Check(const std::string& kernel, const std::vector<std::string>& properties) const {
    std::vector<std::string> words = {"check", kernel, "--plan", "smoke", "--json", "run.json"};
    for (const std::string& property : properties) {
      words.insert(words.end(), {"--property", property});
    }
    return RunAttest(words, folder_);
  }

  // The classes of the blocks that the report shows, in order.
  std::vector<std::string> Blocks() const {
    std::vector<std::string> classes;
    for (const auto& line : ReadJsonLines(folder_ + "/run.json")) {
      if (line["type"] != "summary") continue;
      for (const auto& group : line["kernels"][0]["finding_groups"])
        classes.push_back(group["class"]);
    }
    return classes;
  }

  std::string folder_;
};

// And what both together do, which looks like a key too many or an empty row, has none.
TEST_F(TwoFaults, EachHasItsBlock) {
  const std::pair<const char*, std::vector<std::string>> kPairs[] = {
      {"first=lengths-ignored&second=diagonal-slid", {"lengths-ignored", "diagonal-slid"}},
      {"first=bias-ignored&second=kv-head-modulo", {"bias-ignored", "kv-head-mapping"}},
      {"first=softcap-ignored&second=tile-skipped", {"softcap-ignored", "tile-skipped"}}};
  for (const auto& [options, classes] : kPairs) {
    const ProgramResult run =
        Check(Kernel(options), {"equivalence.matches_r*", "padding.a*", "row_sums.*"});
    EXPECT_EQ(run.status, 1) << run.out << run.err;
    EXPECT_THAT(Blocks(), testing::UnorderedElementsAreArray(classes)) << run.out;
  }
}

// D lacks its last lane, which with one lane is all of it.
TEST_F(TwoFaults, ACauseOfTheBackwardPassHoldsWithMoreLanes) {
  const ProgramResult run =
      Check(Kernel("backward=short-delta"), {"gradients.match_the_reference"});
  EXPECT_EQ(run.status, 1) << run.out << run.err;
  EXPECT_THAT(Blocks(), testing::Not(testing::Contains("gradient-delta"))) << run.out;
  EXPECT_FALSE(Blocks().empty());
}

constexpr const char* kCase = R"(# attest case
version = 1
property = "equivalence.matches_reference"

[problem]
batch = 3
q_heads = 4
kv_heads = 2
q_len = 9
kv_len = 11
head_dim = 8
value_dim = 8
dtype = "f32"
causal = true

[data]
scores = "normal"
values = "normal"
bias = "zero"
seed = 1
recipe_version = 1
)";

// However far it has come, the case that it prints fails. A call takes so long that all of the search takes seconds.
TEST_F(TwoFaults, ShrinkingThatASignalEndsPrintsACaseThatFails) {
  const std::string kernel = Kernel("second=kv-head-modulo&ms=50");
  std::ofstream(folder_ + "/case.toml") << kCase;
  ProgramResult run;
  for (int wait = 250; wait < 8000 && (run.status == -1 || run.status == 2); wait *= 2) {
    Program shrink({"shrink", "case.toml", kernel, "-o", "small.toml"}, folder_);
    std::this_thread::sleep_for(std::chrono::milliseconds(wait));
    shrink.Signal(SIGTERM);
    run = shrink.Wait();  // 2: the signal came before the first run of the case had ended
  }
  EXPECT_EQ(run.status, 1) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("cut short by a signal"));
  EXPECT_EQ(RunAttest({"replay", "small.toml", kernel}, folder_).status, 1);
}

}  // namespace
}  // namespace attest
