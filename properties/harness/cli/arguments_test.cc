#include "properties/harness/cli/arguments.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(ParseDuration, TakesWholeNumbersWithAUnit) {
  EXPECT_EQ(ParseDuration("30s"), std::chrono::seconds(30));
  EXPECT_EQ(ParseDuration("5m"), std::chrono::minutes(5));
  EXPECT_EQ(ParseDuration("8h"), std::chrono::hours(8));
  EXPECT_EQ(ParseDuration("2d"), std::chrono::hours(48));
}

TEST(ParseDuration, RefusesAllElse) {
  for (const char* text : {"", "5", "m", "0s", "-1s", "+1s", "1.5h", " 5m", "5m ", "5ms",
                           "99999999999999999999s", "1000001d"}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
}

TEST(ParseShard, CountsFromZero) {
  EXPECT_EQ(ParseShard("0/1"), (std::pair<int64_t, int64_t>(0, 1)));
  EXPECT_EQ(ParseShard("3/4"), (std::pair<int64_t, int64_t>(3, 4)));
  for (const char* text : {"", "1", "/", "4/4", "0/0", "-1/4", "1/-4", "a/b", "1/4/8"}) {
    EXPECT_FALSE(ParseShard(text)) << text;
  }
}

TEST(ParseSeed, TakesTheWholeRange) {
  EXPECT_EQ(ParseSeed("0"), 0u);
  EXPECT_EQ(ParseSeed("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(ParseSeed("0xff"), 255u);
  for (const char* text : {"", "-1", "18446744073709551616", "0x", "1e3", "seed"}) {
    EXPECT_FALSE(ParseSeed(text)) << text;
  }
}

TEST(SelectProperties, KeepsTheOrderAndSelectsOnce) {
  const auto all = SelectProperties({});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), AllProperties().size());
  const auto twice = SelectProperties({"causal.*", "*"});
  ASSERT_TRUE(twice);
  EXPECT_EQ(*twice, *all);
}

TEST(SelectProperties, RefusesAPatternWithoutMatchBesideOneWith) {
  EXPECT_FALSE(SelectProperties({"causal.*", "casual.*"}));
}

TEST(ContractNamed, KeepsWhatTheKernelOffersUnlessStrict) {
  const auto declared = ParseContract(R"({"contract": "attest-1", "features": ["causal"]})");
  ASSERT_TRUE(declared) << declared.error();
  const auto lenient = ContractNamed("attest-1", false, *declared);
  ASSERT_TRUE(lenient);
  EXPECT_EQ(lenient->features, declared->features);
  const auto strict = ContractNamed("attest-1", true, *declared);
  ASSERT_TRUE(strict);
  EXPECT_TRUE(strict->Has(Feature::kMask));
  EXPECT_FALSE(ContractNamed("nope", false, *declared));
}

}  // namespace
}  // namespace attest
