#include "properties/harness/runner/rapidcheck_driver.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/shrink.h"

namespace attest {
namespace {

Case CaseOfSize(int64_t q_len, int64_t kv_len) {
  Case c;
  c.problem.q_len = q_len;
  c.problem.kv_len = kv_len;
  c.problem.causal = true;
  return c;
}

bool Never() {
  return false;
}

TEST(SearchCases, TestsAsManyCasesAsWanted) {
  int drawn = 0, tested = 0;
  const auto end = SearchCases(
      250, [&] { return CaseOfSize(++drawn, 1); },
      [&](const Case& c) {
        EXPECT_EQ(c.problem.q_len, ++tested);
        return Answer::kHolds;
      });
  EXPECT_EQ(end, SearchEnd::kDone);
  EXPECT_EQ(drawn, 250);
  EXPECT_EQ(tested, 250);
}

TEST(SearchCases, DrawsAnotherForACaseThatSaysNothing) {
  int drawn = 0, held = 0;
  const auto end = SearchCases(
      100, [&] { return CaseOfSize(++drawn, 1); },
      [&](const Case& c) {
        if (c.problem.q_len % 3 != 0) return Answer::kSaysNothing;
        ++held;
        return Answer::kHolds;
      });
  EXPECT_EQ(end, SearchEnd::kDone);
  EXPECT_EQ(held, 100);
  EXPECT_EQ(drawn, 300);
}

TEST(SearchCases, GivesUpWhereNoCaseSaysAnything) {
  int drawn = 0;
  const auto end = SearchCases(
      20, [&] { return CaseOfSize(++drawn, 1); }, [](const Case&) { return Answer::kSaysNothing; });
  EXPECT_EQ(end, SearchEnd::kGaveUp);
  EXPECT_GE(drawn, 200);
  EXPECT_LE(drawn, 202);
}

TEST(SearchCases, StopsAtOnceAndRunsNothingTwice) {
  int drawn = 0, tested = 0;
  const auto end = SearchCases(
      100, [&] { return CaseOfSize(++drawn, 1); },
      [&](const Case&) { return ++tested == 7 ? Answer::kStop : Answer::kHolds; });
  EXPECT_EQ(end, SearchEnd::kStopped);
  EXPECT_EQ(drawn, 7);
  EXPECT_EQ(tested, 7);
}

TEST(SearchCases, NothingWantedIsDone) {
  const auto fail = [] {
    ADD_FAILURE() << "drew a case";
    return Case{};
  };
  EXPECT_EQ(SearchCases(0, fail, [](const Case&) { return Answer::kStop; }), SearchEnd::kDone);
}

// With a malformed RC_PARAMS RapidCheck's shorter entry points end the process.
TEST(SearchCases, IgnoresRapidChecksEnvironment) {
  setenv("RC_PARAMS", "no such parameter", 1);
  const auto end = SearchCases(
      3, [] { return CaseOfSize(1, 1); }, [](const Case&) { return Answer::kHolds; });
  unsetenv("RC_PARAMS");
  EXPECT_EQ(end, SearchEnd::kDone);
}

TEST(ShrinkCase, ReachesTheSmallestCaseThatFails) {
  const auto fails = [](const Case& c) {
    return c.problem.causal && c.problem.q_len >= 2 && c.problem.kv_len >= 5;
  };
  const ShrunkCase shrunk = ShrinkCase(CaseOfSize(23, 37), fails, 10000, Never);
  EXPECT_EQ(shrunk.smallest.problem.q_len, 2);
  EXPECT_EQ(shrunk.smallest.problem.kv_len, 5);
  EXPECT_TRUE(shrunk.smallest.problem.causal);
  for (const Case& candidate : ShrinkCandidates(shrunk.smallest)) EXPECT_FALSE(fails(candidate));
}

TEST(ShrinkCase, NeverTriesMoreThanItsBudget) {
  int64_t tries = 0;
  const auto fails = [&](const Case& c) {
    ++tries;
    return c.problem.kv_len >= 3;
  };
  const ShrunkCase shrunk = ShrinkCase(CaseOfSize(40, 200), fails, 5, Never);
  EXPECT_EQ(tries, 5);
  EXPECT_EQ(shrunk.tries, 5);
  EXPECT_GE(shrunk.smallest.problem.kv_len, 3);
}

TEST(ShrinkCase, EndsWhenTimeIsOut) {
  int64_t tries = 0;
  const auto fails = [&](const Case&) {
    ++tries;
    return true;
  };
  ShrinkCase(CaseOfSize(40, 200), fails, 10000, [&] { return tries >= 2; });
  EXPECT_EQ(tries, 2);
}

TEST(ShrinkCase, KeepsACaseWithoutSmallerFailures) {
  const Case start = CaseOfSize(9, 9);
  const ShrunkCase shrunk = ShrinkCase(
      start, [](const Case&) { return false; }, 10000, Never);
  EXPECT_TRUE(SameCase(shrunk.smallest, start));
  EXPECT_GT(shrunk.tries, 0);
}

}  // namespace
}  // namespace attest
