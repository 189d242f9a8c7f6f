#include "properties/exhaustive/small_cases.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "properties/exhaustive/flags.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

TEST(SmallCasesTest, TheCountIsWhatTheListSays) {
  // One query and one key at most: masks 2, 2, 2 and 3 of the planes, lengths 2 and 3.
  const int64_t planes = 2 * 2 + 2 * 3 + 2 * 2 + 3 * 3;
  EXPECT_EQ(CountSmallCases({1}), planes * 3 * 2 * 7 * 2 * 16);
}

TEST(SmallCasesTest, EveryCaseIsValid) {
  int64_t checked = 0;
  ForEachSmallCase({3, 101}, [&](const Case& c) {
    const auto error = Validate(c);
    EXPECT_EQ(error, std::nullopt) << c.origin;
    ++checked;
    return !error;
  });
  EXPECT_GT(checked, 30000);
}

// Or a failure could not be replayed.
TEST(SmallCasesTest, EveryCaseSurvivesAsText) {
  ForEachSmallCase({3, 9973}, [&](const Case& c) {
    const auto read = ParseToml(ToToml({c, {}, {}, {}}), "test");
    EXPECT_TRUE(read.has_value()) << (read ? "" : read.error()) << ToToml({c, {}, {}, {}});
    EXPECT_TRUE(!read || SameCase(c, read->c)) << ToToml({c, {}, {}, {}});
    return read && SameCase(c, read->c);
  });
}

TEST(SmallCasesTest, ShardsAndStrideShareTheCasesOut) {
  std::multiset<std::string> whole, shared;
  ForEachSmallCase({2, 11}, [&](const Case& c) {
    whole.insert(c.origin);
    return true;
  });
  for (int64_t shard = 0; shard < 3; ++shard) {
    ForEachSmallCase({2, 11, shard, 3}, [&](const Case& c) {
      shared.insert(c.origin);
      return true;
    });
  }
  EXPECT_EQ(whole, shared);
  EXPECT_EQ(static_cast<int64_t>(whole.size()), (CountSmallCases({2}) + 10) / 11);
}

TEST(SmallCasesTest, EveryMaskOfTheLargestPlaneMeetsEveryWindow) {
  std::map<std::vector<uint8_t>, std::set<std::pair<int64_t, int64_t>>> windows;
  ForEachSmallCase({3, 11}, [&](const Case& c) {
    const Problem& p = c.problem;
    if (p.q_len != 3 || p.kv_len != 3 || !p.mask || p.mask->shape[1] != 1) return true;
    const std::vector<uint8_t> first(p.mask->bits.begin(), p.mask->bits.begin() + 9);
    windows[first].insert({p.window.left.value_or(-1), p.window.right.value_or(-1)});
    return true;
  });
  EXPECT_EQ(windows.size(), 512u);
  for (const auto& [mask, seen] : windows) EXPECT_EQ(seen.size(), 16u);
}

TEST(SmallCasesTest, EveryRowOfFlagsIsMetOften) {
  std::map<std::string, int> met;
  ForEachSmallCase({3, 11}, [&](const Case& c) {
    ++met[c.origin.substr(c.origin.find(':'))];
    return true;
  });
  EXPECT_EQ(met.size(), FlagRows().size() + PackedFlagRows().size());
  for (const auto& [row, times] : met) EXPECT_GT(times, 2000) << row;
}

}  // namespace
}  // namespace attest
