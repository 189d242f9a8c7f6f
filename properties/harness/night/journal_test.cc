#include "properties/harness/night/journal.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_journal_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(JournalTest, GoesOnBehindTheLastWholeLine) {
  const std::string path = folder_ + "/j";
  {
    auto journal = Journal::Open(path);
    ASSERT_TRUE(journal) << journal.error();
    EXPECT_THAT((*journal)->lines(), IsEmpty());
    ASSERT_TRUE((*journal)->Append("one\n"));
    ASSERT_TRUE((*journal)->Append("two\nhal"));
  }
  {
    auto journal = Journal::Open(path);
    ASSERT_TRUE(journal) << journal.error();
    EXPECT_THAT((*journal)->lines(), ElementsAre("one", "two"));
    ASSERT_TRUE((*journal)->Append("three\n"));
  }
  auto journal = Journal::Open(path);
  ASSERT_TRUE(journal) << journal.error();
  EXPECT_THAT((*journal)->lines(), ElementsAre("one", "two", "three"));
}

TEST_F(JournalTest, OneRunAtATime) {
  auto journal = Journal::Open(folder_ + "/j");
  ASSERT_TRUE(journal) << journal.error();
  const auto second = Journal::Open(folder_ + "/j");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error(), HasSubstr("another run"));
}

TEST_F(JournalTest, SaysWhereItCannotWrite) {
  const auto journal = Journal::Open(folder_ + "/no/j");
  ASSERT_FALSE(journal);
  EXPECT_THAT(journal.error(), HasSubstr("no/j"));
}

}  // namespace
}  // namespace attest
