#include "impl/attention/enum_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

enum class Word { kA, kB, kC };

TEST(EnumSet, HoldsEachOnceInAscendingOrder) {
  EnumSet<Word> words{Word::kC, Word::kA};
  EXPECT_FALSE(words.insert(Word::kA));
  EXPECT_THAT(words, testing::ElementsAre(Word::kA, Word::kC));
  EXPECT_EQ(words.size(), 2u);
  EXPECT_TRUE(words.insert(Word::kB));
  EXPECT_TRUE(words.erase(Word::kC));
  EXPECT_FALSE(words.erase(Word::kC));
  EXPECT_EQ(words, (EnumSet<Word>{Word::kA, Word::kB}));
  EXPECT_EQ(words & EnumSet<Word>{Word::kB}, EnumSet<Word>{Word::kB});
  words.clear();
  EXPECT_TRUE(words.empty());
  EXPECT_EQ(words.begin(), words.end());
}

TEST(EnumSet, HoldsPairs) {
  using Pair = std::pair<Word, Word>;
  EnumSet<Pair> pairs{{Word::kC, Word::kB}, {Word::kA, Word::kC}};
  EXPECT_EQ(pairs.count({Word::kC, Word::kB}), 1u);
  EXPECT_EQ(pairs.count({Word::kB, Word::kC}), 0u);
  EXPECT_THAT(pairs, testing::ElementsAre(Pair{Word::kA, Word::kC}, Pair{Word::kC, Word::kB}));
}

}  // namespace
}  // namespace attest
