#include "properties/harness/night/child.h"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "properties/harness/night/fuzz_figures.h"

namespace attest {
namespace {

class ChildTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_child_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ChildCommand Shell(const std::string& script) const {
    return {{"/bin/sh", "-c", script}, {{"ATTEST_CHILD_TEST", "a b"}}, folder_ + "/log"};
  }
  std::string Log() const { return TailOf(folder_ + "/log"); }
  static int Wait(Child& child) {
    for (;;) {
      if (const auto status = child.Ended()) return *status;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  std::string folder_;
};

TEST_F(ChildTest, SaysHowItEndedAndKeepsWhatItPrinted) {
  auto child = Child::Start(Shell("echo \"$ATTEST_CHILD_TEST\"; echo err >&2; exit 77"));
  ASSERT_TRUE(child) << child.error();
  EXPECT_EQ(Wait(**child), 77);
  EXPECT_EQ((*child)->Ended(), 77);
  EXPECT_EQ(Log(), "a b\nerr\n");
}

TEST_F(ChildTest, DiesWithItsObjectAndWithAllItStarted) {
  auto child = Child::Start(Shell("sleep 1000 & echo $!; wait"));
  ASSERT_TRUE(child) << child.error();
  while (Log().find('\n') == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  const pid_t grandchild = std::atoi(Log().c_str());
  ASSERT_GT(grandchild, 0);
  EXPECT_FALSE((*child)->Ended());
  child->reset();
  // Killed, it is a zombie until whoever inherits it looks.
  std::string state;
  do {
    state = TailOf("/proc/" + std::to_string(grandchild) + "/stat");
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  } while (!state.empty() && state.find(") Z ") == std::string::npos);
}

TEST_F(ChildTest, StopsOnRequest) {
  auto child = Child::Start(Shell("exec sleep 1000"));
  ASSERT_TRUE(child) << child.error();
  (*child)->Stop();
  EXPECT_EQ(Wait(**child), 128 + SIGTERM);
}

TEST_F(ChildTest, WhatIsNoProgramEndsAsInAShell) {
  auto child = Child::Start({{folder_ + "/nothing"}, {}, folder_ + "/log"});
  ASSERT_TRUE(child) << child.error();
  EXPECT_EQ(Wait(**child), 127);
}

TEST_F(ChildTest, ALogThatCannotBeWrittenIsAnError) {
  const auto child = Child::Start({{"/bin/true"}, {}, folder_ + "/no/log"});
  ASSERT_FALSE(child);
  EXPECT_NE(child.error().find("no/log"), std::string::npos);
}

}  // namespace
}  // namespace attest
