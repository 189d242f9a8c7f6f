// Findings on a kernel whose failures come and go, and what becomes of a class while shrinking. The
// kernels run in their workers, as ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/runner/run_property.h"
#include "properties/harness/sandbox/locate.h"

namespace attest {
namespace {

struct Opened {
  std::unique_ptr<KernelSession> session;
  Contract contract;
};

Opened Open(const std::string& kernel) {
  Opened opened;
  const auto spec = ResolveKernel(kernel);
  EXPECT_TRUE(spec) << spec.error();
  if (!spec) return opened;
  auto session = KernelSession::Open(*spec);
  EXPECT_TRUE(session) << session.error();
  if (!session) return opened;
  opened.session = std::move(*session);
  opened.contract = *ParseContract(opened.session->identity().contract_json);
  return opened;
}

std::string Flaky(const std::string& variant) {
  return (ProgramFolder().parent_path() / "testdata" / "flaky_kernel.so").string() + ":" + variant;
}

Case PlainCase() {
  Case c;
  c.problem.causal = true;
  c.problem.q_len = c.problem.kv_len = 3;
  c.problem.head_dim = c.problem.value_dim = 2;
  return c;
}

// As if the run had met it; the case is kept as it is.
Finding FindingOf(const char* id, const std::string& kernel, int confirmations,
                  Cause cause = Cause::kValue) {
  Opened opened = Open(kernel);
  if (!opened.session) return {};
  Failure failure;
  failure.signature = {id, cause, "out", ""};
  failure.c = PlainCase();
  failure.verdict.kind = VerdictKind::kFail;
  failure.verdict.cause = cause;
  failure.verdict.output = "out";
  failure.verdict.sentence = "it differs";
  RunOptions options;
  options.shrink_budget = 0;
  options.confirmations = confirmations;
  RunObserver observer;
  return MakeFinding(*FindProperty(id), failure, opened.contract, *opened.session, options,
                     observer);
}

TEST(MakeFinding, AWrongValueThatComesAndGoesStaysAFailureWithItsCounts) {
  const Finding finding = FindingOf("equivalence.matches_reference", Flaky("value"), 3);
  EXPECT_EQ(finding.verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(finding.confirmed, 4);  // every fifth call, and a call a run
  EXPECT_EQ(finding.confirmations, 20);
  EXPECT_EQ(finding.verdict.reason, "intermittent 4 of 20");
  EXPECT_THAT(finding.verdict.sentence, testing::HasSubstr("intermittent 4 of 20"));
}

TEST(MakeFinding, ARelationThatFailsNowAndThenIsFlaky) {
  const Finding finding = FindingOf("causal.flag_equals_explicit_triangle", Flaky("bits"), 3);
  EXPECT_EQ(finding.verdict.kind, VerdictKind::kInconclusive);
  EXPECT_EQ(finding.confirmations, 20);
  // Every fifth call, and two calls a run.
  EXPECT_EQ(finding.confirmed, 8);
  EXPECT_EQ(finding.verdict.reason, "flaky: failed in 8 of 20 runs");
}

TEST(MakeFinding, ADeterministicKernelIsNotForgivenWhatItDoesNowAndThen) {
  const Finding finding = FindingOf("determinism.a_rerun_gives_the_same_bits", Flaky("bits"), 3);
  EXPECT_EQ(finding.verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(finding.verdict.reason, "intermittent 8 of 20");
}

TEST(MakeFinding, ACallThatWasLateOnceIsNoFailure) {
  const Finding finding = FindingOf("equivalence.matches_reference", "reference", 3, Cause::kHang);
  EXPECT_EQ(finding.verdict.kind, VerdictKind::kInconclusive);
  EXPECT_EQ(finding.verdict.reason, "slow once: past its deadline in none of 20 more runs");
}

TEST(MakeFinding, MoreConfirmationsThanRecountsAreCounted) {
  const Finding finding = FindingOf("equivalence.matches_reference", Flaky("value"), 25);
  EXPECT_EQ(finding.verdict.reason, "intermittent 5 of 25");
}

TEST(MakeFinding, AFailureThatNeverRecursHasTheSentenceItWasMetWith) {
  const Finding finding = FindingOf("equivalence.matches_reference", "reference", 3);
  EXPECT_EQ(finding.verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(finding.verdict.sentence, "it differs (intermittent 0 of 20)");
}

TEST(MakeFinding, OneThatRecursEachTimeIsRunNoMoreThanAsked) {
  const Finding finding = FindingOf("equivalence.matches_reference", "mutant:zeros", 3);
  EXPECT_EQ(finding.verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(finding.confirmed, 3);
  EXPECT_EQ(finding.confirmations, 3);
  EXPECT_EQ(finding.verdict.reason, "");
}

// Two items of two keys each, of which item n sees lengths[n].
Case WithLengths(std::vector<int64_t> lengths) {
  Case c = PlainCase();
  c.problem.causal = false;
  c.problem.batch = 2;
  c.problem.q_len = c.problem.kv_len = 2;
  c.problem.key_lengths = std::move(lengths);
  c.recipe.values = ValueFamily::kNormal;
  return c;
}

Finding FindingBehind(const std::string& kernel, const Case& c, std::vector<Case> before) {
  Opened opened = Open(kernel);
  if (!opened.session) return {};
  const Property& property = *FindProperty("equivalence.matches_reference");
  MakeCalls(before, opened.contract, *opened.session);
  const CaseResult met = RunCase(property, c, opened.contract, *opened.session);
  EXPECT_EQ(met.verdict.kind, VerdictKind::kFail);
  if (met.failures.empty()) return {};
  Failure failure = met.failures.front();
  failure.before = std::move(before);
  RunObserver observer;
  return MakeFinding(property, failure, opened.contract, *opened.session, {}, observer);
}

// What is kept from one call to the next shows in no call alone.
TEST(MakeFinding, AFailureThatNeedsACallBeforeItKeepsThatCall) {
  const Finding finding = FindingBehind("mutant:lengths-of-last-call", WithLengths({1, 1}),
                                        {PlainCase(), WithLengths({1, 2}), WithLengths({2, 2})});
  EXPECT_EQ(finding.verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(finding.before.size(), 1u);
  EXPECT_EQ(finding.confirmed, finding.confirmations);
  EXPECT_EQ(finding.signature.cause_class, "call-before");
  EXPECT_THAT(finding.verdict.sentence, testing::HasSubstr("it depends on the call before it"));
  EXPECT_EQ(finding.smallest.problem.batch, 1);
  Opened opened = Open("mutant:lengths-of-last-call");
  ASSERT_TRUE(opened.session);
  const Property& property = *FindProperty("equivalence.matches_reference");
  const auto kind = [&] {
    return RunCase(property, finding.smallest, opened.contract, *opened.session).verdict.kind;
  };
  EXPECT_EQ(kind(), VerdictKind::kPass) << "alone";
  opened.session->Refresh();
  MakeCalls(finding.before, opened.contract, *opened.session);
  EXPECT_EQ(kind(), VerdictKind::kFail) << "behind the call";
}

TEST(MakeFinding, WhereTheCallsBeforeAreNotKnownItSaysThatItDependsOnThem) {
  const std::string kernel = "mutant:lengths-of-last-call";
  Opened opened = Open(kernel);
  ASSERT_TRUE(opened.session);
  const Property& property = *FindProperty("equivalence.matches_reference");
  MakeCalls({WithLengths({2, 2})}, opened.contract, *opened.session);
  const CaseResult met = RunCase(property, WithLengths({1, 1}), opened.contract, *opened.session);
  ASSERT_FALSE(met.failures.empty());
  RunOptions options;
  options.shrink_budget = 0;
  RunObserver observer;
  const Finding finding = MakeFinding(property, met.failures.front(), opened.contract,
                                      *opened.session, options, observer);
  EXPECT_TRUE(finding.before.empty());
  EXPECT_EQ(finding.signature.cause_class, "call-before");
  EXPECT_THAT(finding.verdict.sentence, testing::HasSubstr("calls before it that are not known"));
}

TEST(MakeFinding, AnOrdinaryFailureKeepsNoCalls) {
  const Finding finding =
      FindingBehind("mutant:zeros", PlainCase(), {PlainCase(), WithLengths({1, 2})});
  EXPECT_TRUE(finding.before.empty());
  EXPECT_NE(finding.signature.cause_class, "call-before");
}

TEST(RunProperty, WhatIsFlakyIsSaidOnceAndIsNoFinding) {
  Opened opened = Open(Flaky("bits"));
  ASSERT_TRUE(opened.session);
  RunOptions options;
  options.plan.cases_per_property = 40;
  RunObserver observer;
  const PropertyResult result = RunProperty(*FindProperty("causal.flag_equals_explicit_triangle"),
                                            opened.contract, *opened.session, options, observer);
  for (const Finding& finding : result.findings) {
    EXPECT_NE(finding.signature.property, result.property) << finding.verdict.sentence;
  }
  EXPECT_EQ(result.verdict, VerdictKind::kInconclusive);
  EXPECT_THAT(result.reason, testing::StartsWith("flaky: failed in "));
}

TEST(RunProperty, SignaturesKnownBeforeAreCountedAndNotReportedAgain) {
  const Property& property = *FindProperty("equivalence.matches_reference");
  Opened opened = Open("mutant:zeros");
  ASSERT_NE(opened.session, nullptr);
  RunObserver observer;
  RunOptions options;
  options.plan = {"test", 50};
  options.max_findings = 100;
  std::map<Signature, int> classes;
  const PropertyResult first =
      RunProperty(property, opened.contract, *opened.session, options, observer);
  ASSERT_FALSE(first.findings.empty());
  for (const Finding& finding : first.findings) {
    EXPECT_EQ(finding.signature.cause_class, finding.verdict.cause_class);
    EXPECT_TRUE(options.known.insert(finding.signature).second) << ToString(finding.signature);
    Signature any_class = finding.signature;
    any_class.cause_class.clear();
    EXPECT_LE(++classes[any_class], options.max_classes) << ToString(finding.signature);
  }
  const PropertyResult second =
      RunProperty(property, opened.contract, *opened.session, options, observer);
  for (const Finding& finding : second.findings) {
    EXPECT_EQ(options.known.count(finding.signature), 0u) << ToString(finding.signature);
  }
  EXPECT_LT(second.findings.size(), first.findings.size());
  EXPECT_EQ(second.verdict, VerdictKind::kFail);
}

// The one fault of the kernel stands for two: a known one that needs causality, and a new one. Shrinking would
// make both the same case.
TEST(RunProperty, AWaivedFailureHidesNoOtherOfItsSignature) {
  Opened opened = Open("mutant:zeros");
  ASSERT_NE(opened.session, nullptr);
  RunObserver observer;
  RunOptions options;
  options.plan = {"test", 50};
  options.is_waived = [](const Failure& failure) { return failure.c.problem.causal; };
  const PropertyResult result = RunProperty(*FindProperty("equivalence.matches_reference"),
                                            opened.contract, *opened.session, options, observer);
  std::set<bool> waived;  // of those with one signature
  for (const Finding& finding : result.findings) {
    if (ToString(finding.signature).starts_with("equivalence.matches_reference/value/out")) {
      waived.insert(finding.smallest.problem.causal);
    }
  }
  EXPECT_EQ(waived, (std::set<bool>{false, true}));
}

// The limits are set so that any restart is slow, for a kernel in C++ that aborts in each call.
PropertyResult OfAbortingKernel(const RunOptions& options) {
  Opened opened = Open("hostile:abort");
  if (!opened.session) return {};
  RunObserver observer;
  return RunProperty(*FindProperty("row_sums.ones_give_one"), opened.contract, *opened.session,
                     options, observer);
}

TEST(RunProperty, EndsAfterSlowDeathsButNotAfterQuickOnes) {
  RunOptions options;
  options.plan.cases_per_property = 40;
  options.shrink_budget = 0;
  const PropertyResult quick = OfAbortingKernel(options);
  EXPECT_EQ(quick.verdict, VerdictKind::kFail);
  EXPECT_FALSE(quick.dies_slowly);
  EXPECT_EQ(quick.cases_run(), 40);
  options.slow_restart = options.slow_deaths_time = std::chrono::milliseconds(0);
  const PropertyResult slow = OfAbortingKernel(options);
  EXPECT_EQ(slow.verdict, VerdictKind::kFail);
  EXPECT_TRUE(slow.dies_slowly);
  EXPECT_LT(slow.cases_run(), 40);
  EXPECT_THAT(slow.reason, testing::HasSubstr("deaths of the worker"));
}

PropertyResult Smoke(const char* kernel, const char* property) {
  Opened opened = Open(kernel);
  if (!opened.session) return {};
  RunObserver observer;
  RunOptions options;
  options.plan.cases_per_property = 40;
  return RunProperty(*FindProperty(property), opened.contract, *opened.session, options, observer);
}

// The calls of a case go to the worker together: what a later one writes to an earlier one's output is there before
// that has been looked at.
TEST(RunProperty, AnOutputThatALaterCallWritesToIsNoWrongValue) {
  const auto result = Smoke("hostile:write-previous", "determinism.a_rerun_gives_the_same_bits");
  ASSERT_FALSE(result.findings.empty());
  for (const Finding& finding : result.findings) {
    EXPECT_EQ(finding.signature.cause, Cause::kLateWrite) << ToString(finding.signature);
    EXPECT_EQ(finding.confirmed, finding.confirmations);
  }
}

// A claim of one call a case: the spoilt output is another case's.
TEST(RunProperty, AWriteToAnotherCasesOutputIsMetBehindThatCase) {
  const auto result = Smoke("hostile:write-previous", "row_sums.ones_give_one");
  const auto late =
      std::ranges::find(result.findings, Cause::kLateWrite,
                        [](const Finding& finding) { return finding.signature.cause; });
  ASSERT_NE(late, result.findings.end());
  EXPECT_EQ(ToString(late->signature), "row_sums.ones_give_one/late_write/call-before");
  EXPECT_EQ(late->before.size(), 1u);
  EXPECT_EQ(late->confirmed, late->confirmations);
  EXPECT_THAT(late->verdict.sentence,
              testing::ContainsRegex("wrote to out .* of the call before it, after that call had"));
  Opened opened = Open("hostile:write-previous");
  ASSERT_TRUE(opened.session);
  const CaseResult again = RunBehind(late->before, *FindProperty("row_sums.ones_give_one"),
                                     late->smallest, opened.contract, *opened.session);
  ASSERT_FALSE(again.failures.empty());
  EXPECT_EQ(again.failures.front().signature.cause, Cause::kLateWrite);
}

// The time is looked at before cases are run, and not at what has come of them.
TEST(RunProperty, AFailureThatTakesTheRestOfTheTimeCounts) {
  SessionOptions impatient;
  impatient.deadline = std::chrono::milliseconds{60};  // ten times that for the first call
  auto session = KernelSession::Open(*ResolveKernel("hostile:hang"), impatient);
  ASSERT_TRUE(session) << session.error();
  const Contract contract = *ParseContract((*session)->identity().contract_json);
  RunObserver observer;
  RunOptions options;
  options.stop_at = std::chrono::steady_clock::now() + std::chrono::milliseconds{400};
  const auto result = RunProperty(*FindProperty("equivalence.matches_reference"), contract,
                                  **session, options, observer);
  EXPECT_EQ(result.verdict, VerdictKind::kFail);
  EXPECT_EQ(result.cases.at(VerdictKind::kFail), 1);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].signature.cause, Cause::kHang);
}

// Its claim makes one call a case, and the worker that has died starts to count anew.
TEST(RunProperty, ADeathInTheFifthCallIsMetAgainBehindFourOthers) {
  const auto result = Smoke("hostile:abort?every=5", "row_sums.ones_give_one");
  ASSERT_FALSE(result.findings.empty());
  const Finding& finding = result.findings.front();
  EXPECT_EQ(ToString(finding.signature), "row_sums.ones_give_one/crash/call-before");
  EXPECT_EQ(finding.before.size(), 4u);
  EXPECT_EQ(finding.confirmed, finding.confirmations);
}

TEST(PropertyRun, InPartsIsTheRunInOne) {
  const Property& property = *FindProperty("equivalence.matches_reference");
  RunOptions options;
  options.plan.cases_per_property = 40;
  options.shrink_budget = 20;
  RunObserver observer;
  Opened opened = Open("mutant:kv-head-modulo");
  ASSERT_TRUE(opened.session);
  const auto whole = RunProperty(property, opened.contract, *opened.session, options, observer);
  PropertyRun run(property, opened.contract, *opened.session, options, observer);
  for (const int64_t cases : {3, 17, 17, 40}) {
    run.RunTo(cases, options);
    EXPECT_EQ(run.result().cases_run(), cases);
  }
  const auto parts = run.Finish();
  EXPECT_EQ(parts.verdict, VerdictKind::kFail);
  EXPECT_EQ(parts.cases, whole.cases);
  EXPECT_EQ(parts.cases_to_first, whole.cases_to_first);
  ASSERT_EQ(parts.findings.size(), whole.findings.size());
  EXPECT_EQ(parts.findings[0].signature, whole.findings[0].signature);
  EXPECT_TRUE(SameCase(parts.findings[0].smallest, whole.findings[0].smallest));
}

TEST(PropertyRun, WhatIsNotRunToItsEndSaysHowFarItCame) {
  RunOptions options;
  options.plan.cases_per_property = 40;
  RunObserver observer;
  Opened opened = Open("tiled");
  ASSERT_TRUE(opened.session);
  PropertyRun run(*FindProperty("row_sums.ones_give_one"), opened.contract, *opened.session,
                  options, observer);
  run.RunTo(5, options);
  run.CutShort("the kernel hangs in 3 properties");
  const auto result = run.Finish();
  EXPECT_EQ(result.verdict, VerdictKind::kInconclusive);
  EXPECT_EQ(result.reason, "ended after 5 of 40 cases: the kernel hangs in 3 properties");
}

TEST(Plans, PassThroughTheSmallerOnes) {
  EXPECT_EQ(PassesOf(*FindPlan("smoke")), (std::vector<int64_t>{40}));
  EXPECT_EQ(PassesOf(*FindPlan("ci")), (std::vector<int64_t>{40, 120, 2000}));
}

TEST(Covers, APatternWithoutAClassNamesAllOfThem) {
  const Signature classed{"a.b", Cause::kValue, "out", "one-class"};
  const Signature other{"a.b", Cause::kValue, "out", "other-class"};
  const Signature plain{"a.b", Cause::kValue, "out", ""};
  EXPECT_TRUE(Covers(plain, classed));
  EXPECT_TRUE(Covers(plain, plain));
  EXPECT_TRUE(Covers(classed, classed));
  EXPECT_FALSE(Covers(classed, plain));
  EXPECT_FALSE(Covers(classed, other));
  EXPECT_FALSE(Covers(plain, {"a.b", Cause::kValue, "lse", ""}));
  EXPECT_EQ(ToString(classed), "a.b/value/out/one-class");
  EXPECT_EQ(ToString(plain), "a.b/value/out");
}

}  // namespace
}  // namespace attest
