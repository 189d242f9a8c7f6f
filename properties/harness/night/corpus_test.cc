#include "properties/harness/night/corpus.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;

class CorpusTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_corpus_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Corpus Open() const {
    auto corpus = Corpus::Open(folder_ + "/c", 2);
    EXPECT_TRUE(corpus) << corpus.error();
    return *corpus;
  }
  static void Put(const std::string& folder, const std::string& name) {
    std::ofstream(folder + "/" + name) << name;
  }
  static std::vector<std::string> Names(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string folder_;
};

TEST_F(CorpusTest, MergeTakesThePlaceOfAllThatWasMerged) {
  const Corpus corpus = Open();
  Put(corpus.shared(), "a");
  Put(corpus.job(1), "b");
  Put(corpus.job(1), "half.tmp");
  EXPECT_EQ(corpus.Size(), 2);
  EXPECT_THAT(corpus.Folders(), ElementsAre(corpus.shared(), corpus.job(1)));
  corpus.StartMerge();
  Put(corpus.merging(), "b");
  EXPECT_EQ(corpus.Size(), 2);
  corpus.FinishMerge();
  EXPECT_THAT(Names(corpus.shared()), ElementsAre("b"));
  EXPECT_EQ(corpus.Size(), 1);
}

TEST_F(CorpusTest, AMergeThatWasCutOffIsAsIfItHadNotBegun) {
  {
    const Corpus corpus = Open();
    Put(corpus.shared(), "a");
    Put(corpus.job(0), "b");
    corpus.StartMerge();
    Put(corpus.merging(), "b");
  }
  const Corpus again = Open();
  EXPECT_THAT(Names(again.shared()), ElementsAre("a"));
  EXPECT_EQ(again.Size(), 2);
  EXPECT_FALSE(fs::exists(again.merging()));
}

TEST_F(CorpusTest, CutOffBetweenTheRenamesItIsAsIfItHadFinished) {
  {
    const Corpus corpus = Open();
    Put(corpus.shared(), "a");
    corpus.StartMerge();
    Put(corpus.merging(), "b");
    fs::rename(corpus.shared(), folder_ + "/c/old");
  }
  const Corpus again = Open();
  EXPECT_THAT(Names(again.shared()), ElementsAre("b"));
  EXPECT_FALSE(fs::exists(folder_ + "/c/old"));
}

TEST_F(CorpusTest, InputsOfMoreJobsThanNowAreKept) {
  const Corpus corpus = Open();
  fs::create_directories(corpus.job(7));
  Put(corpus.job(7), "a");
  EXPECT_THAT(Open().Folders(), ElementsAre(corpus.shared(), corpus.job(7)));
}

TEST_F(CorpusTest, TrimKeepsTheNewestOfEachJob) {
  const Corpus corpus = Open();
  const auto now = fs::file_time_type::clock::now();
  for (const int age : {3, 1, 2}) {
    Put(corpus.job(0), std::to_string(age));
    fs::last_write_time(corpus.job(0) + "/" + std::to_string(age), now - std::chrono::hours{age});
  }
  corpus.Trim(2);
  EXPECT_THAT(Names(corpus.job(0)), ElementsAre("1", "2"));
}

}  // namespace
}  // namespace attest
