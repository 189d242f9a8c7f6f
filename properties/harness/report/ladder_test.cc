// The ladder on made-up reports: what holds, what breaks, and above all what does not count.
#include "properties/harness/report/ladder.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using testing::HasSubstr;
using testing::Not;

// A kernel that promises and offers everything, with one verdict for every property.
KernelReport KernelWithAll(VerdictKind kind) {
  KernelReport kernel;
  kernel.kernel = "k";
  kernel.contract = *ParseContract(R"({"contract": "attest-1"})");
  for (const Property& property : AllProperties()) {
    PropertyResult result;
    result.property = property.id;
    result.verdict = kind;
    result.wanted = 10;
    if (kind != VerdictKind::kUnsupported) result.cases[kind] = 10;
    kernel.results.push_back(std::move(result));
  }
  return kernel;
}

PropertyResult& ResultOf(KernelReport& kernel, const std::string& id) {
  for (PropertyResult& result : kernel.results) {
    if (result.property == id) return result;
  }
  ADD_FAILURE() << id << " is no property";
  return kernel.results.front();
}

// Makes the property fail with one finding.
void Break(KernelReport& kernel, const std::string& id, Cause cause, int64_t kv_len = 1) {
  ResultOf(kernel, id).verdict = VerdictKind::kFail;
  ReportedFinding reported;
  reported.finding.signature = {id, cause, "", ""};
  reported.finding.verdict.kind = VerdictKind::kFail;
  reported.finding.verdict.cause = cause;
  reported.finding.verdict.sentence = "it breaks with kv_len " + std::to_string(kv_len);
  reported.finding.smallest.problem.kv_len = kv_len;
  reported.command = "attest replay x.toml";
  kernel.findings.push_back(std::move(reported));
}

RungState StateOf(const Ladder& ladder, Rung rung) {
  return ladder.rungs[static_cast<size_t>(rung)].state;
}

TEST(Ladder, EveryRungHasAProperty) {
  for (const RungReport& rung : LadderOf(KernelWithAll(VerdictKind::kPass)).rungs) {
    EXPECT_GT(rung.cases, 0) << Name(rung.rung);
  }
}

TEST(Ladder, HoldsToTheTopWherePropertiesAllPass) {
  const KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(ladder.held, ladder.rungs.size());
  EXPECT_FALSE(ladder.witness);
  EXPECT_EQ(LadderText(kernel, ladder), "holds up to batch-invariant (8 of 8 rungs)\n");
}

TEST(Ladder, MarginalHoldsAndIsSaid) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  ResultOf(kernel, "equivalence.matches_reference").verdict = VerdictKind::kMarginal;
  ResultOf(kernel, "equivalence.matches_reference").cases = {{VerdictKind::kMarginal, 10}};
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(ladder.held, ladder.rungs.size());
  EXPECT_THAT(LadderText(kernel, ladder),
              testing::ContainsRegex("marginal +within the bound: in 10 of [0-9]+ cases"));
}

TEST(Ladder, NothingRunHoldsNothing) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  kernel.results.clear();
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(ladder.held, 0u);
  for (const RungReport& rung : ladder.rungs) {
    EXPECT_EQ(rung.state, RungState::kNotShown) << Name(rung.rung);
  }
  // One line for all of them.
  EXPECT_THAT(LadderText(kernel, ladder),
              testing::MatchesRegex("holds no rung; only 0 of [0-9]+ claims were run\nnot shown "
                                    "+memory-safe, .*, batch-invariant: "
                                    "no claim was run\n"));
}

TEST(Ladder, AClaimLeftOutIsNotHeld) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  std::erase_if(kernel.results, [](const PropertyResult& result) {
    return result.property == "masks.boolean_equals_additive";
  });
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(StateOf(ladder, Rung::kMaskCorrect), RungState::kNotShown);
  EXPECT_EQ(ladder.held, static_cast<size_t>(Rung::kMaskCorrect));
  EXPECT_THAT(LadderText(kernel, ladder), HasSubstr("claims not run"));
  EXPECT_EQ(ladder.run, ladder.claims - 1);
  EXPECT_THAT(HeldText(ladder), testing::ContainsRegex("rungs\\); only [0-9]+ of [0-9]+ claims"));
}

TEST(Ladder, UnsupportedAndInconclusiveAreNotHeld) {
  KernelReport kernel = KernelWithAll(VerdictKind::kUnsupported);
  for (PropertyResult& result : kernel.results) result.reason = "no causal masking";
  Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(ladder.held, 0u);
  EXPECT_THAT(ladder.rungs[0].why, HasSubstr("no causal masking"));

  kernel = KernelWithAll(VerdictKind::kPass);
  ResultOf(kernel, "masks.make_no_nan_or_infinity").verdict = VerdictKind::kInconclusive;
  ResultOf(kernel, "masks.make_no_nan_or_infinity").reason = "out of time";
  ladder = LadderOf(kernel);
  EXPECT_EQ(StateOf(ladder, Rung::kFinite), RungState::kNotShown);
  EXPECT_THAT(ladder.rungs[static_cast<size_t>(Rung::kFinite)].why, HasSubstr("out of time"));
}

TEST(Ladder, OneUnsupportedClaimBesideOthersLeavesARungHeld) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  ResultOf(kernel, "window.equals_explicit_band").verdict = VerdictKind::kUnsupported;
  EXPECT_EQ(StateOf(LadderOf(kernel), Rung::kMaskCorrect), RungState::kHolds);
}

TEST(Ladder, ARungWithoutAnythingOfferedIsPassedOver) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  kernel.contract = *ParseContract(R"({"contract": "attest-1", "features": []})");
  for (PropertyResult& result : kernel.results) {
    if (FindProperty(result.property)->unsupported(kernel.contract).empty()) continue;
    result.verdict = VerdictKind::kUnsupported;
    result.cases.clear();
  }
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(StateOf(ladder, Rung::kHiddenMeansHidden), RungState::kNotOffered);
  EXPECT_EQ(ladder.held, ladder.rungs.size());
  const std::string text = LadderText(kernel, ladder);
  EXPECT_THAT(text, HasSubstr("up to batch-invariant (7 of 8 rungs, 1 not offered)\n"));
  EXPECT_THAT(text,
              testing::ContainsRegex("not offered +hidden means hidden: the contract offers"));
  // One that is offered and refused is not.
  kernel.contract = *ParseContract(R"({"contract": "attest-1"})");
  EXPECT_EQ(StateOf(LadderOf(kernel), Rung::kHiddenMeansHidden), RungState::kNotShown);
}

TEST(Ladder, AFindingBreaksItsPropertysRungAndIsItsWitness) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  Break(kernel, "equivalence.matches_reference", Cause::kValue);
  Break(kernel, "masks.lengths_equal_mask", Cause::kValue, 7);
  Break(kernel, "masks.boolean_equals_additive", Cause::kValue, 3);
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(StateOf(ladder, Rung::kMaskCorrect), RungState::kBreaks);
  EXPECT_EQ(StateOf(ladder, Rung::kWithinBound), RungState::kBreaks);
  EXPECT_EQ(ladder.held, static_cast<size_t>(Rung::kMaskCorrect));
  ASSERT_TRUE(ladder.witness);
  EXPECT_EQ(*ladder.witness, 2u) << "the smaller case of the lower rung";
  const std::string text = LadderText(kernel, ladder);
  EXPECT_THAT(text, HasSubstr("holds up to hidden means hidden (4 of 8 rungs)"));
  EXPECT_THAT(text, HasSubstr("first broken by masks.boolean_equals_additive/value"));
  EXPECT_THAT(text, HasSubstr("it breaks with kv_len 3"));
  EXPECT_THAT(text, HasSubstr("replay: attest replay x.toml"));
}

TEST(Ladder, ACrashBreaksTheFirstRungWhateverTheClaim) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  Break(kernel, "causal.flag_equals_explicit_triangle", Cause::kCrash);
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(StateOf(ladder, Rung::kMemorySafe), RungState::kBreaks);
  EXPECT_EQ(StateOf(ladder, Rung::kMaskCorrect), RungState::kNotShown)
      << "a claim that crashes says nothing about masks";
  EXPECT_EQ(ladder.held, 0u);
}

TEST(Ladder, CausesOverrideTheClaim) {
  const std::pair<Cause, Rung> table[] = {{Cause::kReadFault, Rung::kMemorySafe},
                                          {Cause::kStrayWrite, Rung::kMemorySafe},
                                          {Cause::kLeak, Rung::kMemorySafe},
                                          {Cause::kInputChanged, Rung::kMemorySafe},
                                          {Cause::kHang, Rung::kMemorySafe},
                                          {Cause::kMemoryLimit, Rung::kMemorySafe},
                                          {Cause::kFloatEnvironment, Rung::kMemorySafe},
                                          {Cause::kProtocol, Rung::kMemorySafe},
                                          {Cause::kUnwritten, Rung::kWritesEveryOutput},
                                          {Cause::kRefused, Rung::kWritesEveryOutput},
                                          {Cause::kNan, Rung::kFinite},
                                          {Cause::kInf, Rung::kFinite},
                                          {Cause::kValue, Rung::kHiddenMeansHidden}};
  for (const auto& [cause, rung] : table) {
    Finding finding;
    finding.signature = {"causal.future_keys_do_not_matter", cause, "out", ""};
    EXPECT_EQ(RungBrokenBy(finding), rung) << Name(cause);
  }
}

TEST(Ladder, ANanWhereNoFiniteValueIsDueBreaksTheClaimsOwnRung) {
  Finding finding;
  finding.signature = {"empty_rows.lse_is_as_promised", Cause::kNan, "lse", ""};
  finding.verdict.witness =
      Witness{{0, 0, 0, 0}, -std::numeric_limits<double>::infinity(), std::nan(""), 0};
  EXPECT_EQ(RungBrokenBy(finding), Rung::kMaskCorrect);
}

TEST(Ladder, AFlakyFindingBreaksNothingAndHoldsNothing) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  Break(kernel, "masks.lengths_equal_mask", Cause::kValue);
  kernel.findings[0].finding.verdict.kind = VerdictKind::kInconclusive;
  ResultOf(kernel, "masks.lengths_equal_mask").verdict = VerdictKind::kInconclusive;
  ResultOf(kernel, "masks.lengths_equal_mask").reason = "flaky: failed in 1 of 20 runs";
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(StateOf(ladder, Rung::kMaskCorrect), RungState::kNotShown);
  EXPECT_FALSE(ladder.witness);
}

TEST(Ladder, AFailureWhoseFindingWasNotKeptStillBreaks) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  ResultOf(kernel, "masks.lengths_equal_mask").verdict = VerdictKind::kFail;
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(StateOf(ladder, Rung::kMaskCorrect), RungState::kBreaks);
  EXPECT_FALSE(ladder.witness);
}

TEST(Ladder, WhatIsNotPromisedIsSaidWithWhatWasSeen) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  kernel.contract.bits_invariant.clear();
  PropertyResult& rerun = ResultOf(kernel, "determinism.a_rerun_gives_the_same_bits");
  rerun.verdict = VerdictKind::kMarginal;
  rerun.cases = {{VerdictKind::kMarginal, 4}, {VerdictKind::kPass, 6}};
  const Ladder ladder = LadderOf(kernel);
  EXPECT_EQ(StateOf(ladder, Rung::kDeterministic), RungState::kNotPromised);
  EXPECT_EQ(StateOf(ladder, Rung::kBatchInvariant), RungState::kNotPromised);
  EXPECT_EQ(ladder.held, static_cast<size_t>(Rung::kDeterministic));
  const std::string text = LadderText(kernel, ladder);
  EXPECT_THAT(text, HasSubstr("not promised  deterministic: other bits in 4 of 60 cases"));
  EXPECT_THAT(text, HasSubstr("not promised  batch-invariant: the same bits in all 20 cases"));
}

TEST(Ladder, AFailureBeyondTheBoundBreaksEvenWhatIsNotPromised) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  kernel.contract.bits_invariant.clear();
  Break(kernel, "determinism.call_order_does_not_matter", Cause::kValue);
  EXPECT_EQ(StateOf(LadderOf(kernel), Rung::kDeterministic), RungState::kBreaks);
}

TEST(Ladder, LongListsOfClaimsAreCut) {
  KernelReport kernel = KernelWithAll(VerdictKind::kPass);
  for (const PropertyResult& result : kernel.results) {
    if (FindProperty(result.property)->rung == Rung::kMaskCorrect) {
      Break(kernel, result.property, Cause::kValue);
    }
  }
  const std::string text = LadderText(kernel, LadderOf(kernel));
  EXPECT_THAT(text, HasSubstr(", ...\n"));
  EXPECT_THAT(text, Not(HasSubstr("window.open_to_the_left_is_causal")));
}

}  // namespace
}  // namespace attest
