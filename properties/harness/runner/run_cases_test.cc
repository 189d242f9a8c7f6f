// Cases whose calls go to the kernel together come out as they do one by one.
#include <gtest/gtest.h>

#include "properties/harness/case/generator.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

constexpr const char* kRerun = "determinism.a_rerun_gives_the_same_bits";  // two calls a case

std::unique_ptr<KernelSession> OpenKernel(const char* kernel) {
  const auto spec = ResolveKernel(kernel);
  auto session = spec ? KernelSession::Open(*spec) : tl::unexpected(spec.error());
  EXPECT_TRUE(session) << session.error();
  return session ? std::move(*session) : nullptr;
}

std::vector<Case> Draw(int count, const Contract& contract) {
  std::vector<Case> cases;
  for (int n = 0; n < count; ++n) cases.push_back(DrawCase(static_cast<uint64_t>(n), 30, contract));
  return cases;
}

TEST(RunCases, AreRunInOneRoundTripAndJudgedOneByOne) {
  const auto session = OpenKernel("mutant:kv-head-modulo");
  ASSERT_TRUE(session);
  const Contract contract = *ParseContract(session->identity().contract_json);
  const Property& property = *FindProperty(kRerun);
  const std::vector<Case> cases = Draw(40, contract);
  size_t failed = 0;
  for (size_t first = 0; first < cases.size();) {
    const auto some = std::span(cases).subspan(first, std::min<size_t>(4, cases.size() - first));
    const auto together = RunCases(property, some, contract, *session);
    ASSERT_FALSE(together.empty());
    for (size_t n = 0; n < together.size(); ++n) {
      const CaseResult alone = RunCase(property, some[n], contract, *session);
      EXPECT_EQ(together[n].verdict.kind, alone.verdict.kind) << first + n;
      EXPECT_EQ(together[n].applied, alone.applied);
      ASSERT_EQ(together[n].failures.size(), alone.failures.size());
      EXPECT_EQ(together[n].called.size(), alone.called.size());
      const bool has_failed = !together[n].failures.empty();
      failed += has_failed ? 1 : 0;
      // The cases behind the first that fails have no result.
      EXPECT_EQ(n + 1 == together.size(), has_failed || n + 1 == some.size());
    }
    first += together.size();
  }
  EXPECT_GT(failed, 2u);
  EXPECT_LT(failed, 40u);
}

TEST(RunCases, MakeOneRoundTripOfTheirCalls) {
  const auto session = OpenKernel("reference");
  ASSERT_TRUE(session);
  const Contract contract = *ParseContract(session->identity().contract_json);
  const std::vector<Case> cases(4);  // the smallest there is
  const auto results = RunCases(*FindProperty(kRerun), cases, contract, *session);
  ASSERT_EQ(results.size(), 4u);
  for (const CaseResult& result : results) EXPECT_EQ(result.verdict.kind, VerdictKind::kPass);
  EXPECT_EQ(session->stats().calls, 8);
  EXPECT_EQ(session->stats().round_trips, 1);
}

// Every third call dies: the third of the four, and run again each by itself, in the process that has taken one more
// since, the second.
TEST(RunCases, EndWithTheFirstThatFailsByItself) {
  const auto session = OpenKernel("hostile:abort?every=3");
  ASSERT_TRUE(session);
  const Contract contract = *ParseContract(session->identity().contract_json);
  const std::vector<Case> cases(4);
  const auto results =
      RunCases(*FindProperty("equivalence.matches_reference"), cases, contract, *session);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_TRUE(results[0].failures.empty());
  ASSERT_EQ(results[1].failures.size(), 1u);
  EXPECT_EQ(results[1].failures[0].signature.cause, Cause::kCrash);
  EXPECT_EQ(results[0].called_before.size(), 4u);
}

// Of twenty calls in one process one fails; run again none does.
TEST(RunCases, KeepAFailureThatDoesNotRecur) {
  const auto session = OpenKernel("hostile:abort?every=20");
  ASSERT_TRUE(session);
  const Contract contract = *ParseContract(session->identity().contract_json);
  const std::vector<Case> cases(4);
  const Property& property = *FindProperty("equivalence.matches_reference");
  for (int n = 0; n < 17; ++n) RunCase(property, cases[0], contract, *session);
  const auto results = RunCases(property, cases, contract, *session);
  ASSERT_EQ(results.size(), 3u);
  ASSERT_EQ(results[2].failures.size(), 1u);
  EXPECT_EQ(results[2].failures[0].signature.cause, Cause::kCrash);
}

}  // namespace
}  // namespace attest
