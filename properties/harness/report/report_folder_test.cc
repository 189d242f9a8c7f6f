#include "properties/harness/report/report_folder.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

class ReportFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_folder_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string Folder() const { return root_ + "/a/report"; }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(Folder() + "/" + name) << text;
  }
  std::string Get(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Folder() + "/" + name).rdbuf();
    return text.str();
  }
  // Without the notes.
  std::set<std::string> Files() const {
    std::set<std::string> names;
    std::error_code is_not_there;
    for (const auto& entry : std::filesystem::directory_iterator(Folder(), is_not_there)) {
      names.insert(entry.path().filename().string());
    }
    names.erase(".attest");
    return names;
  }

  std::string root_;
};

TEST_F(ReportFolderTest, ALaterRunTakesAwayWhatAttestWroteAndNothingElse) {
  {
    ReportFolder first(Folder(), ReportFolder::IfTaken::kTakeNext);
    ASSERT_TRUE(first.Begin());
    EXPECT_FALSE(std::filesystem::exists(Folder())) << "made with its first file";
    ASSERT_TRUE(first.Write("old.toml", "case\n"));
    ASSERT_TRUE(first.Write("twice.toml", "one\n"));
    ASSERT_TRUE(first.Write("twice.toml", "two\n"));
    ASSERT_TRUE(first.Write("edited.toml", "case\n"));
    ASSERT_TRUE(first.Write("link.toml", "case\n"));
  }
  Put("edited.toml", "case\nseed = 2\n");
  Put("mine.toml", "case\n");
  Put("old.toml.partial", "ca");
  std::filesystem::remove(Folder() + "/link.toml");
  std::filesystem::create_symlink("mine.toml", Folder() + "/link.toml");
  ReportFolder second(Folder());
  ASSERT_TRUE(second.Begin());
  EXPECT_THAT(Files(), UnorderedElementsAre("edited.toml", "mine.toml", "link.toml"));
  ASSERT_TRUE(second.Write("new.toml", "case\n"));
  EXPECT_EQ(Files().count("new.toml"), 1u);
}

TEST_F(ReportFolderTest, AFolderIsOneRunsAtATime) {
  ReportFolder first(Folder());
  ASSERT_TRUE(first.Begin());
  ASSERT_TRUE(first.Write("first.toml", "case\n"));
  const auto refused = ReportFolder(Folder()).Begin();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr(Folder() + ": another run"));
  EXPECT_EQ(Get("first.toml"), "case\n");
}

TEST_F(ReportFolderTest, NotesThatAreNoFileAreRefusedAtOnce) {
  std::filesystem::create_directories(Folder() + "/.attest");
  EXPECT_FALSE(ReportFolder(Folder()).Begin()) << "a folder";
  std::filesystem::remove(Folder() + "/.attest");
  ASSERT_EQ(mkfifo((Folder() + "/.attest").c_str(), 0666), 0);
  EXPECT_FALSE(ReportFolder(Folder()).Begin()) << "a pipe";
  std::filesystem::create_symlink(root_ + "/nowhere", root_ + "/link");
  EXPECT_FALSE(ReportFolder(root_ + "/link").Begin()) << "a link to nothing";
}

TEST_F(ReportFolderTest, ARunThatMayTakesTheNextFreeFolder) {
  const auto next = ReportFolder::IfTaken::kTakeNext;
  ReportFolder first(Folder(), next), second(Folder(), next), third(Folder(), next);
  ASSERT_TRUE(first.Begin());
  ASSERT_TRUE(third.Begin());
  EXPECT_EQ(first.Write("a.toml", "1"), Folder() + "/a.toml");
  ASSERT_TRUE(second.Begin()) << "where the folder is there when it begins";
  EXPECT_EQ(second.Write("a.toml", "2"), Folder() + "-2/a.toml");
  EXPECT_EQ(third.Write("a.toml", "3"), Folder() + "-3/a.toml") << "where it is not";
  EXPECT_EQ(third.Write("b.toml", "3"), Folder() + "-3/b.toml");
  EXPECT_EQ(Get("a.toml"), "1");
}

TEST_F(ReportFolderTest, WhatAUserHasWrittenIsPutAsideWhereItsNameIsWanted) {
  {
    ReportFolder first(Folder());
    ASSERT_TRUE(first.Begin());
    ASSERT_TRUE(first.Write("case.toml", "case\n"));
  }
  Put("case.toml", "case\n# mine\n");
  Put("report.md", "my own report");
  ReportFolder second(Folder());
  ASSERT_TRUE(second.Begin());
  for (const char* text : {"case\n", "case of a smaller size\n"}) {
    ASSERT_TRUE(second.Write("case.toml", text));
  }
  ASSERT_TRUE(second.Write("report.md", "report"));
  EXPECT_THAT(Files(),
              UnorderedElementsAre("case.toml", "case.toml.kept", "report.md", "report.md.kept"));
  EXPECT_EQ(Get("case.toml.kept"), "case\n# mine\n");
  EXPECT_EQ(Get("report.md.kept"), "my own report");
}

TEST_F(ReportFolderTest, WhatANightWroteStays) {
  ASSERT_TRUE(ReportFolder(Folder()).Write("night.toml", "case\n"));
  ReportFolder run(Folder());
  ASSERT_TRUE(run.Begin());
  EXPECT_THAT(Files(), UnorderedElementsAre("night.toml"));
}

TEST_F(ReportFolderTest, NotesOnPlacesOutsideTheFolderAreNotFollowed) {
  ReportFolder run(Folder());
  ASSERT_TRUE(run.Begin());
  ASSERT_TRUE(run.Write("a.toml", "x"));
  const std::filesystem::path notes = Folder() + "/.attest";
  std::string note;
  std::ifstream(notes) >> note;
  std::ofstream(root_ + "/a/mine") << "x";
  std::ofstream(notes, std::ios::app) << note << " ../mine\n";
  EXPECT_FALSE(ReportFolder(Folder()).Begin());
  EXPECT_EQ(Files().count("a.toml"), 1u);
  std::filesystem::copy(Folder(), root_ + "/b");
  ASSERT_TRUE(ReportFolder(root_ + "/b").Begin());
  EXPECT_FALSE(std::filesystem::exists(root_ + "/b/a.toml"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/a/mine"));
}

TEST_F(ReportFolderTest, AFolderThatCannotBeMadeIsOneLine) {
  std::ofstream(root_ + "/file") << "x";
  const auto refused = ReportFolder(root_ + "/file/report").Begin();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr("file/report"));
  ReportFolder run(root_ + "/file/report", ReportFolder::IfTaken::kTakeNext);
  ASSERT_TRUE(run.Begin()) << "said with the first file";
  const auto written = run.Write("a.toml", "x");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error(), HasSubstr("file/report"));
}

}  // namespace
}  // namespace attest
