#include "properties/harness/model/compare_logits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace attest {
namespace {

using ::testing::HasSubstr;
using Row = std::vector<double>;

Verdict Compare(const Row& expected, const Row& observed, bool promised,
                DType dtype = DType::kF32) {
  ModelContract contract;
  contract.dtype = dtype;
  LogitsComparison comparison(contract, promised);
  comparison.Row(expected, observed, 2, 3, "why");
  return comparison.Finish();
}

TEST(CompareLogitsTest, TheSameBitsPassAndSignedZerosAreTheSame) {
  EXPECT_EQ(Compare({1, 0, NAN}, {1, -0.0, NAN}, true).kind, VerdictKind::kPass);
}

TEST(CompareLogitsTest, PromisedBitsFailByOne) {
  const Verdict verdict = Compare({1, 2}, {1, std::nextafter(2, 3)}, true);
  EXPECT_EQ(verdict.kind, VerdictKind::kFail);
  EXPECT_THAT(verdict.sentence, HasSubstr("position 3 of item 2, for token 1"));
  EXPECT_THAT(verdict.sentence, HasSubstr("bit for bit; why"));
}

TEST(CompareLogitsTest, TheLineIsHalfTheDigitsOfTheLargestLogit) {
  const double line = 8 * std::sqrt(std::ldexp(1, -23));
  EXPECT_EQ(Compare({8, 0}, {8, 0.99 * line}, false).kind, VerdictKind::kMarginal);
  EXPECT_EQ(Compare({8, 0}, {8, 1.01 * line}, false).kind, VerdictKind::kFail);
  EXPECT_EQ(Compare({8, 0}, {8, 0.99 * line}, false, DType::kF64).kind, VerdictKind::kFail);
  EXPECT_NEAR(Compare({8, 0}, {8, 0.5 * line}, false).worst_ratio, 0.5, 1e-9);
}

// f32 logits over half-precision layers, as many models have them.
TEST(CompareLogitsTest, TheLineIsThatOfTheCoarsestFormatThatIsDeclared) {
  const Row expected{8, 0}, observed{8, 8 * 0x1p-9};
  const Verdict undeclared = Compare(expected, observed, false);
  EXPECT_EQ(undeclared.kind, VerdictKind::kFail);
  EXPECT_THAT(undeclared.sentence, HasSubstr("\"precision\": \"f16\" says so"));
  ModelContract contract;
  contract.precision = DType::kF16;
  LogitsComparison comparison(contract, false);
  comparison.Row(expected, observed, 0, 0, "why");
  EXPECT_EQ(comparison.Finish().kind, VerdictKind::kMarginal);
  EXPECT_THAT(Compare(expected, {8, 4}, false).sentence, testing::EndsWith("why"));
  EXPECT_THAT(Compare(expected, observed, true).sentence, testing::EndsWith("why"));
  contract.dtype = DType::kBF16;
  EXPECT_EQ(contract.Precision(), DType::kBF16);
}

TEST(CompareLogitsTest, WhatElseRoundsIsAllowedItsShare) {
  const ModelContract contract;
  const auto compare = [&](double observed) {
    LogitsComparison comparison(contract, false);
    comparison.Allow(0.1);
    comparison.Row(Row{8}, Row{observed}, 0, 0, "why");
    return comparison.Finish().kind;
  };
  EXPECT_EQ(compare(7.21), VerdictKind::kMarginal);
  EXPECT_EQ(compare(7.19), VerdictKind::kFail);
}

TEST(CompareLogitsTest, WhatIsNotFiniteIsNoRounding) {
  EXPECT_EQ(Compare({1, 2}, {NAN, 2}, false).cause, Cause::kNan);
  EXPECT_EQ(Compare({1, 2}, {INFINITY, 2}, false).cause, Cause::kInf);
  EXPECT_EQ(Compare({INFINITY, 2}, {-INFINITY, 2}, false).kind, VerdictKind::kFail);
}

TEST(CompareLogitsTest, TheFirstFailureIsKept) {
  ModelContract contract;
  LogitsComparison comparison(contract, true);
  EXPECT_FALSE(comparison.Row(Row{1}, Row{2}, 0, 0, "first"));
  comparison.Row(Row{1}, Row{5}, 0, 1, "second");
  EXPECT_EQ(comparison.verdict().rows, 2);
  EXPECT_THAT(comparison.Finish().sentence, HasSubstr("first"));
}

}  // namespace
}  // namespace attest
