// Every hostile kernel as a user meets it: the run ends, the finding names the misdeed by its cause, the
// other results are complete, and nothing is left behind; however and whenever the run is ended.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/mutants/hostile.h"
#include "properties/harness/cli/run_program.h"

namespace attest {

// Or GoogleTest prints the bytes.
void PrintTo(const Misdeed& misdeed, std::ostream* out) {
  *out << misdeed.id;
}

namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

bool IsAmong(const std::string& cause, std::string_view causes) {
  return fmt::format("|{}|", causes).find(fmt::format("|{}|", cause)) != std::string::npos;
}

std::set<std::string> SharedMemory() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored))
    names.insert(entry.path().filename().string());
  return names;
}

// Waits until `done` holds, for a time that only a fault can take.
template <typename Condition>
bool Eventually(const Condition& done) {
  for (int i = 0; i < 3000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

// Orphans of this process come back to it, so that whatever is left behind is seen.
bool AllDescendantsAreGone() {
  return Eventually([] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
  });
}

class HostileHarness : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_hostile_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<Json> LinesOf(const std::string& type, const std::string& file = "run.json") const {
    std::vector<Json> lines;
    for (const Json& line : ReadJsonLines(folder_ + "/" + file)) {
      EXPECT_FALSE(line.is_discarded()) << "a line is not whole";
      if (!line.is_discarded() && line["type"] == type) lines.push_back(line);
    }
    return lines;
  }

  std::string folder_;
};
class HostileKernel : public HostileHarness, public testing::WithParamInterface<Misdeed> {};

// The one property, and how it is called; a kernel that hangs is given 5 ms, or the test would take long.
std::vector<std::string> Check(const Misdeed& misdeed) {
  const bool hangs = misdeed.cause == "hang";
  const std::string kernel = fmt::format("hostile:{}{}", misdeed.id, hangs ? "?ms=100" : "");
  // A gap between rows takes a layout that has one; a leak takes calls.
  const char* property = misdeed.id == "write-gap" ? "memory.strides_do_not_matter"
                                                   : "determinism.a_rerun_gives_the_same_bits";
  // Where values differ the search for the cause is dear, so a fifth of the cases must do.
  const char* shard = IsAmong("value", misdeed.cause) ? "0/5" : "0/1";
  return {"check",   kernel,    "--property",      property,
          "--plan",  "smoke",   "--deadline",      hangs ? "5" : "2000",
          "--shard", shard,     "--confirmations", "1",
          "--json",  "run.json"};
}

TEST_P(HostileKernel, IsFoundByItsCauseAndLeavesNothingBehind) {
  const Misdeed& misdeed = GetParam();
  const std::set<std::string> shared_memory = SharedMemory();
  const ProgramResult run = RunAttest(Check(misdeed), folder_);
  EXPECT_TRUE(AllDescendantsAreGone());
  EXPECT_EQ(SharedMemory(), shared_memory);
  EXPECT_EQ(run.status, misdeed.cause.empty() ? 0 : 1) << run.out << run.err;
  bool is_named = misdeed.cause.empty();
  for (const Json& finding : LinesOf("finding")) {
    // Of a value its cause is asked as well.
    const bool is_of_a_value = finding["cause"] == "value";
    is_named = is_named || (IsAmong(finding["cause"], misdeed.cause) &&
                            (!is_of_a_value || IsAmong(finding["class"], misdeed.cause)));
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + finding["case_file"].get<std::string>()));
  }
  EXPECT_TRUE(is_named) << run.out;
  EXPECT_EQ(LinesOf("result").size(), 1u);
  EXPECT_EQ(LinesOf("summary").size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run.json.partial"));
}

// A kernel that is late by what the default deadline does not notice, and what the first call of a session may take.
TEST_F(HostileHarness, AHangIsSeenAgainByThePrintedCommand) {
  const ProgramResult run = RunAttest(
      {"check", "hostile:late?ms=100", "--property", "determinism.a_rerun_gives_the_same_bits",
       "--plan", "smoke", "--deadline", "20", "--confirmations", "1", "--json", "run.json"},
      folder_);
  ASSERT_EQ(run.status, 1) << run.out << run.err;
  const auto findings = LinesOf("finding");
  ASSERT_FALSE(findings.empty());
  const std::string replay = findings[0]["replay"];
  EXPECT_THAT(replay, testing::EndsWith(" --deadline 20"));
  const ProgramResult again =
      RunAttest({"replay", findings[0]["case_file"], "--deadline", "20"}, folder_);
  EXPECT_EQ(again.status, 1) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("no answer within"));
}

std::string TestName(const testing::TestParamInfo<Misdeed>& info) {
  std::string name(info.param.id);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Misdeeds, HostileKernel,
                         testing::ValuesIn(Misdeeds().begin(), Misdeeds().end()), TestName);

// What one call in five does is found, and costs the other results nothing.
TEST_F(HostileHarness, OtherResultsAreComplete) {
  const ProgramResult run = RunAttest({"check", "hostile:abort?every=5", "--property",
                                       "row_sums.[ao]*", "--plan", "smoke", "--json", "run.json"},
                                      folder_);
  EXPECT_EQ(run.status, 1) << run.out << run.err;
  ASSERT_FALSE(LinesOf("result").empty());
  for (const Json& result : LinesOf("result")) {
    if (result["verdict"] == "UNSUPPORTED") continue;
    EXPECT_EQ(result["cases_run"], 40) << result;
  }
}

// A kernel that has left a daemon in a session of its own, at whatever moment the harness is killed.
TEST_F(HostileHarness, KilledAtAnyMomentLeavesNothingRunningAndWholeLines) {
  for (const int wait : {1, 15, 60, 200, 600}) {
    {
      Program program({"check", "hostile:fork-away", "--json", "run.json"}, folder_);
      std::this_thread::sleep_for(milliseconds(wait));
      program.Signal(SIGKILL);
      program.Wait();
    }
    EXPECT_TRUE(AllDescendantsAreGone()) << "killed after " << wait << " ms";
    for (const Json& finding : LinesOf("finding", "run.json.partial"))
      EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + finding["case_file"].get<std::string>()));
  }
}

// The first call has twenty seconds before it counts as hanging; the user need not wait for them.
TEST_F(HostileHarness, InterruptionDoesNotWaitForAHang) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Program program({"check", "hostile:hang-deaf", "--json", "run.json"}, folder_);
    ASSERT_TRUE(Eventually([&] { return !LinesOf("run", "run.json.partial").empty(); }));
    std::this_thread::sleep_for(milliseconds(100));
    const auto begin = Clock::now();
    program.Signal(signal);
    const ProgramResult result = program.Wait();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    EXPECT_EQ(result.status, 2) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("interrupted"));
    EXPECT_TRUE(LinesOf("finding").empty()) << "what was waited for says nothing";
    EXPECT_EQ(LinesOf("summary").size(), 1u);
    EXPECT_TRUE(AllDescendantsAreGone());
  }
}

}  // namespace
}  // namespace attest
