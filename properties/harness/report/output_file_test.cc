#include "properties/harness/report/output_file.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_output_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static bool Exists(const std::string& path) { return std::filesystem::exists(path); }

  std::string folder_;
};

TEST_F(OutputFileTest, TargetChangesOnlyOnCommit) {
  const std::string path = Path("run.json");
  ASSERT_TRUE(WriteFile(path, "old\n"));
  auto file = OutputFile::Open(path);
  ASSERT_TRUE(file) << file.error();
  ASSERT_TRUE((*file)->Append("new\n"));
  EXPECT_EQ(Read(path), "old\n");
  EXPECT_EQ(Read(path + ".partial"), "new\n");
  ASSERT_TRUE((*file)->Commit());
  EXPECT_EQ(Read(path), "new\n");
  EXPECT_FALSE(Exists(path + ".partial"));
}

TEST_F(OutputFileTest, KilledRunLeavesItsLinesInThePartialFile) {
  const std::string path = Path("run.json");
  {
    auto file = OutputFile::Open(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->Append("line\n"));
  }
  EXPECT_FALSE(Exists(path));
  EXPECT_EQ(Read(path + ".partial"), "line\n");
  ASSERT_TRUE(WriteFile(path, "whole\n"));  // the next run starts afresh
  EXPECT_EQ(Read(path), "whole\n");
}

TEST_F(OutputFileTest, MissingFolderIsNamedWithItsRemedy) {
  const auto written = WriteFile(Path("no/such/run.json"), "x");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error(), HasSubstr("no/such/run.json"));
  EXPECT_THAT(written.error(), HasSubstr("create the folder first"));
}

TEST_F(OutputFileTest, FolderIsRefused) {
  const auto written = WriteFile(folder_, "x");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error(), HasSubstr("name a file"));
}

TEST_F(OutputFileTest, FullDiskIsAnErrorAndTheDeviceStays) {
  const auto written = WriteFile("/dev/full", "x");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error(), HasSubstr("No space left"));
  struct stat status {};
  ASSERT_EQ(stat("/dev/full", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

// A disk of one page, which fills up in the course of the run.
TEST_F(OutputFileTest, DiskThatFillsUpLeavesNothingHalfWritten) {
  const std::string disk = Path("disk");
  std::filesystem::create_directory(disk);
  if (mount("attest", disk.c_str(), "tmpfs", 0, "size=4k") != 0) {
    GTEST_SKIP() << "needs root, to mount a small disk";
  }
  {
    auto file = OutputFile::Open(disk + "/run.json");
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->Append("first line\n"));
    const auto written = (*file)->Append(std::string(100000, 'x'));
    ASSERT_FALSE(written);
    EXPECT_THAT(written.error(), HasSubstr("No space left"));
    EXPECT_THAT(written.error(), HasSubstr("make room"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(disk));
  EXPECT_EQ(umount(disk.c_str()), 0);
}

TEST_F(OutputFileTest, ErrorIsRepeatedByEveryFurtherCall) {
  auto file = OutputFile::Open("/dev/full");
  ASSERT_TRUE(file);
  ASSERT_FALSE((*file)->Append("x"));
  EXPECT_FALSE((*file)->Append("y"));
  EXPECT_FALSE((*file)->Commit());
}

TEST_F(OutputFileTest, TwoRunsCannotShareOneFile) {
  auto first = OutputFile::Open(Path("run.json"));
  ASSERT_TRUE(first);
  ASSERT_TRUE((*first)->Append("first\n"));
  const auto second = OutputFile::Open(Path("run.json"));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error(), HasSubstr("another run"));
  ASSERT_TRUE((*first)->Commit());
  EXPECT_EQ(Read(Path("run.json")), "first\n");
}

TEST_F(OutputFileTest, DiscardLeavesNothingBehind) {
  auto file = OutputFile::Open(Path("run.json"));
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->Append("x"));
  (*file)->Discard();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace attest
