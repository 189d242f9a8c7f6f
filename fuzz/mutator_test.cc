#include "fuzz/mutator.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "properties/harness/case/bins.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

// As LLVMFuzzerMutate: changes one byte.
size_t MutateOneByte(uint8_t* data, size_t size, size_t) {
  data[size / 2] ^= 0x55;
  return size;
}

MutatorSetting Setting() {
  return {EverythingContract(), MutateOneByte};
}

void ExpectCanonical(const CaseRecord& record) {
  const Case c = DecodeCase(record);
  ASSERT_EQ(Validate(c), std::nullopt) << ToToml({c, {}, {}, {}});
  ASSERT_EQ(CanonicalRecord(record), record) << ToToml({c, {}, {}, {}});
}

TEST(MutatorTest, TenThousandMutationsAreValidDifferentAndRepeatable) {
  CaseRecord record{};
  BinCounts seen;
  int large = 0;  // with sizes of models, which are to be rare
  for (uint64_t seed = 0; seed < 10000; ++seed) {
    const CaseRecord next = MutateRecord(record, seed, Setting());
    ASSERT_NO_FATAL_FAILURE(ExpectCanonical(next));
    ASSERT_NE(next, CanonicalRecord(record));
    large += next[0] == 3 ? 1 : 0;
    if (seed % 8 == 0) {
      ASSERT_EQ(next, MutateRecord(record, seed, Setting()));
      seen.Add(DecodeCase(next));
    }
    record = seed % 50 == 49 ? RandomRecord(seed) : next;
  }
  EXPECT_GT(large, 100);
  EXPECT_LT(large, 2500);
  EXPECT_LT(seen.Missing(EverythingContract()).size(),
            RequiredBins(EverythingContract()).size() / 10);
}

TEST(MutatorTest, EveryStepChangesSomeCase) {
  const Case c = DrawCase(3, 60, EverythingContract());
  std::set<std::string> results;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    Case changed = c;
    MutateCase(changed, draw);
    ASSERT_EQ(Validate(changed), std::nullopt);
    results.insert(ToToml({changed, {}, {}, {}}));
  }
  EXPECT_GT(results.size(), 100u);
}

TEST(MutatorTest, CrossingsAreValidAndTakeFromBoth) {
  int mixed = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const CaseRecord a = RandomRecord(seed), b = RandomRecord(seed + 1000000);
    const CaseRecord crossed = CrossRecords(a, b, seed);
    ASSERT_NO_FATAL_FAILURE(ExpectCanonical(crossed));
    ASSERT_EQ(crossed, CrossRecords(a, b, seed));
    mixed += crossed != a && crossed != b ? 1 : 0;
  }
  EXPECT_GT(mixed, 990);
}

TEST(MutatorTest, ARecordCrossedWithItselfStaysTheCase) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Case c = DrawCase(seed, 20, EverythingContract());
    const auto record = EncodeCase(c);
    const bool moves_whole = record && c.overrides.size() <= 2 &&
                             (!c.problem.mask || c.problem.mask->bits.size() <= 192) &&
                             (!c.problem.bias || c.problem.bias->bits.size() <= 128);
    if (!moves_whole) continue;
    EXPECT_TRUE(SameCase(DecodeCase(InSharedPlaces(*record)), c)) << ToToml({c, {}, {}, {}});
    EXPECT_TRUE(SameCase(DecodeCase(CrossRecords(*record, *record, seed)), c));
  }
}

}  // namespace
}  // namespace attest
