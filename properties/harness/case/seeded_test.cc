#include "properties/harness/case/seeded.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace attest {
namespace {

Problem Sample() {
  Problem p;
  p.batch = 2;
  p.q_heads = 2;
  p.kv_heads = 1;
  p.q_len = 5;
  p.kv_len = 7;
  return p;
}

TEST(SeededTest, TheSeedThatIsFoundMakesTheSame) {
  for (uint16_t seed = 0; seed < 200; ++seed) {
    Problem p = Sample();
    p.documents = SeededDocuments(seed, p);
    p.dropout = Dropout{0.5, SeededKeep(seed, p)};
    ASSERT_EQ(Validate(p), std::nullopt);
    const auto documents = FindDocumentsSeed(p), keep = FindKeepSeed(p);
    ASSERT_TRUE(documents && keep) << seed;
    EXPECT_LE(*documents, seed);
    EXPECT_EQ(SeededDocuments(*documents, p), *p.documents);
    EXPECT_EQ(SeededKeep(*keep, p), p.dropout->keep);
  }
}

TEST(SeededTest, WhatNoSeedMakesIsSaidToHaveNone) {
  Problem p = Sample();
  p.documents = SeededDocuments(3, p);
  p.documents->key[4] = 12345;
  EXPECT_FALSE(FindDocumentsSeed(p));
  p.dropout = Dropout{0.5, SeededKeep(3, p)};
  p.dropout->keep.bits.assign(p.dropout->keep.bits.size(), 1);
  EXPECT_TRUE(FindKeepSeed(p));  // one in four keeps everything
}

TEST(SeededTest, CuttingAtTheEndKeepsWhatRemains) {
  const Problem big = Sample();
  Problem small = big;
  small.q_len = 3;
  small.kv_len = 4;
  for (uint16_t seed = 0; seed < 50; ++seed) {
    const Documents from = SeededDocuments(seed, big), to = SeededDocuments(seed, small);
    EXPECT_TRUE(std::equal(to.key.begin(), to.key.begin() + 4, from.key.begin()));
    EXPECT_TRUE(std::equal(to.query.begin() + 3, to.query.end(), from.query.begin() + 5));
    EXPECT_EQ(SeededKeep(seed, big).At(1, 1, 2, 3), SeededKeep(seed, small).At(1, 1, 2, 3));
  }
}

}  // namespace
}  // namespace attest
