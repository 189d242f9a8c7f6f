#include "properties/bench/emulated_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/reference/reference.h"
#include "properties/bench/distributions.h"
#include "properties/bench/emulated_sums.h"

namespace attest {
namespace {

using ::testing::Each;

constexpr Row kFirstRow{0, 0, 0};

bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

// Some 130 keys, so that tiles, splits and blocks all have more than one and a remainder.
Sample NormalSample(DType dtype, uint64_t seed = 7) {
  Random random(seed);
  return DrawNormalSample(dtype, 2, 131, 24, random);
}

TEST(VariantsTest, AtLeastTwentyWithNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const KernelVariant& variant : CorrectVariants()) names.insert(variant.name);
  EXPECT_EQ(names.size(), CorrectVariants().size());
  EXPECT_GE(names.size(), 20u);
}

// Not a bound, but far from any real fault: normal data leave errors of some roundings only.
TEST(VariantsTest, EveryVariantIsCloseToTheReference) {
  for (const DType dtype : kFloatTypes) {
    const Sample sample = NormalSample(dtype);
    const Reference reference = ComputeReference(sample.problem, sample.inputs, {});
    const double u = TraitsOf(dtype).unit_roundoff;
    for (const KernelVariant& variant : CorrectVariants()) {
      const EmulatedRow row = EmulateRow(sample.problem, sample.inputs, kFirstRow, variant);
      SCOPED_TRACE(std::string(variant.name) + " " + std::string(Name(dtype)));
      for (size_t d = 0; d < row.out.size(); ++d) {
        EXPECT_NEAR(row.out[d], reference.out.At(0, 0, 0, static_cast<int64_t>(d)), 64 * u);
      }
      const bool narrow_scores = variant.stores_scores ||
                                 variant.scale_at == ScaleAt::kStoredQuery ||
                                 variant.sums_rounded_weights;
      const double lse_u = IsHalf(dtype) && !narrow_scores ? 0x1p-24 : u;
      EXPECT_NEAR(row.lse, reference.lse.At(0, 0, 0, 0), 64 * lse_u);
    }
  }
}

TEST(VariantsTest, OutputsAreRepresentable) {
  for (const DType dtype : kFloatTypes) {
    const Sample sample = NormalSample(dtype);
    for (const KernelVariant& variant : CorrectVariants()) {
      const EmulatedRow row = EmulateRow(sample.problem, sample.inputs, kFirstRow, variant);
      for (const double x : row.out) EXPECT_EQ(RoundTo(dtype, x), x) << variant.name;
      EXPECT_EQ(RoundTo(sample.problem.LseDType(), row.lse), row.lse) << variant.name;
    }
  }
}

// A variant that computed like another would test nothing of its own. Some differ in one type only,
// or where weights underflow.
TEST(VariantsTest, NoTwoVariantsAgreeInEveryBit) {
  std::vector<Sample> samples;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    samples.push_back(NormalSample(DType::kF32, seed));
    samples.push_back(NormalSample(DType::kBF16, seed));
    Random random(seed);
    samples.push_back(DrawSample(Distribution::kTinyWeights, DType::kF32, {1, 64, 16}, random));
  }
  std::vector<std::vector<EmulatedRow>> rows(CorrectVariants().size());
  for (const Sample& sample : samples) {
    for (size_t v = 0; v < rows.size(); ++v) {
      rows[v].push_back(EmulateRow(sample.problem, sample.inputs, kFirstRow, CorrectVariants()[v]));
    }
  }
  for (size_t a = 0; a < rows.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      EXPECT_FALSE(rows[a] == rows[b])
          << CorrectVariants()[a].name << " / " << CorrectVariants()[b].name;
    }
  }
}

TEST(VariantsTest, ASingleKeyReturnsItsValueExactly) {
  Random random(3);
  const Sample sample = DrawNormalSample(DType::kF32, 1, 1, 8, random);
  for (const KernelVariant& variant : CorrectVariants()) {
    // The constants of exp2 and the logarithms of a merge round even here.
    if (variant.scale_at == ScaleAt::kExponent || variant.summation == Summation::kBlockUnit)
      continue;
    const EmulatedRow row = EmulateRow(sample.problem, sample.inputs, kFirstRow, variant);
    EXPECT_EQ(row.out, sample.inputs.v.values) << variant.name;
  }
}

TEST(VariantsTest, AnEmptyRowIsZero) {
  Sample sample = NormalSample(DType::kF32);
  sample.problem.key_lengths = {0};
  for (const KernelVariant& variant : CorrectVariants()) {
    const EmulatedRow row = EmulateRow(sample.problem, sample.inputs, kFirstRow, variant);
    EXPECT_THAT(row.out, Each(0.0));
    EXPECT_EQ(row.lse, -std::numeric_limits<double>::infinity());
  }
}

TEST(VariantsTest, HeadsBiasAndHiddenKeysAreThoseOfTheProblem) {
  Problem p;
  p.batch = 2;
  p.q_heads = 4;
  p.kv_heads = 2;
  p.q_len = 3;
  p.kv_len = 5;
  p.head_dim = p.value_dim = 3;
  p.causal = true;
  p.diagonal_offset = {1, 2};
  p.bias.emplace();
  p.bias->shape = {1, 4, 3, 5};
  p.bias->bits.assign(60, 1);
  Inputs in{Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), Array(p.bias->shape)};
  double x = 0;
  for (Array* tensor : {&in.q, &in.k, &in.v, &in.bias}) {
    for (double& value : tensor->values) value = RoundTo(DType::kF32, std::sin(++x));
  }
  const Reference reference = ComputeReference(p, in, {});
  ForEachRow(p, [&](const Row& row) {
    const EmulatedRow observed = EmulateRow(p, in, row, VariantNamed("scale in exp2"));
    for (int64_t d = 0; d < p.value_dim; ++d) {
      EXPECT_NEAR(observed.out[static_cast<size_t>(d)],
                  reference.out.At(row.batch, row.head, row.query, d), 1e-6);
    }
  });
}

TEST(VariantsTest, OnlyWhatIsDeclaredDiffersFromTheDefault) {
  const NumericsProfile base = DefaultNumerics(DType::kF16);
  EXPECT_EQ(DeclaredBy(VariantNamed("online 64"), DType::kF16, base), base);
  EXPECT_TRUE(DeclaredBy(VariantNamed("matrix unit"), DType::kF16, base).truncating_accumulators);
  EXPECT_EQ(DeclaredBy(VariantNamed("blocks of 64"), DType::kF16, base).summation_block, 64);
  EXPECT_EQ(DeclaredBy(VariantNamed("S stored"), DType::kF16, base).scores, DType::kF16);
}

struct FaultCase {
  FaultKind kind;
  double size = 0;
  std::string_view variant = "online 16";
};

void PrintTo(const FaultCase& fault, std::ostream* out) {
  *out << "fault " << static_cast<int>(fault.kind);
}

class FaultTest : public ::testing::TestWithParam<FaultCase> {};

// In f16 or in f32, in some of a few rows: some faults have no meaning in the one or the other.
TEST_P(FaultTest, ChangesSomething) {
  int changed = 0;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      Random random(seed);
      Sample sample = DrawNormalSample(dtype, 1, 128, 16, random);
      sample.problem.causal = true;
      sample.problem.diagonal_offset = {GetParam().kind == FaultKind::kFutureKey ? 63 : 127};
      if (GetParam().kind == FaultKind::kMaxStartsAtZero) {
        for (double& k : sample.inputs.k.values) k = -30 * sample.inputs.q.values[0];
        for (double& q : sample.inputs.q.values) q = sample.inputs.q.values[0];
      }
      const KernelVariant& variant = VariantNamed(GetParam().variant);
      const auto run = [&](const Fault& fault) {
        return EmulateRow(sample.problem, sample.inputs, kFirstRow, variant, fault);
      };
      changed += run({GetParam().kind, GetParam().size, seed}) != run({});
    }
  }
  EXPECT_GE(changed, 3);
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    ::testing::Values(
        FaultCase{FaultKind::kDropKey}, FaultCase{FaultKind::kRepeatKey},
        FaultCase{FaultKind::kFutureKey}, FaultCase{FaultKind::kLastKeyOfFullTiles},
        FaultCase{FaultKind::kScale, 1e-2}, FaultCase{FaultKind::kScale, 1e-4},
        FaultCase{FaultKind::kAccumulatorNotRescaled}, FaultCase{FaultKind::kSumNotRescaled},
        FaultCase{FaultKind::kOneRescaleMissing}, FaultCase{FaultKind::kNarrowScoreSums},
        FaultCase{FaultKind::kNarrowValueSums}, FaultCase{FaultKind::kNarrowWeightSums},
        FaultCase{FaultKind::kPaddedKeysCounted, 24}, FaultCase{FaultKind::kSwappedValues},
        FaultCase{FaultKind::kCoarseWeights}, FaultCase{FaultKind::kExpError, 1e-4},
        FaultCase{FaultKind::kValueRowOff, 1e-2}, FaultCase{FaultKind::kCoarseScores},
        FaultCase{FaultKind::kWrongLog2E}, FaultCase{FaultKind::kTruncatedWeights},
        FaultCase{FaultKind::kTruncatedOutput}, FaultCase{FaultKind::kMaxStartsAtZero}));

TEST(FaultTest, ADroppedKeyIsDroppedAndNoOther) {
  // V one-hot reads the weights off: one of them is 0, and the others share its part.
  Sample sample = NormalSample(DType::kF64);
  sample.problem.value_dim = sample.problem.kv_len;
  sample.inputs.v = Array(sample.problem.VShape());
  for (int64_t j = 0; j < sample.problem.kv_len; ++j) sample.inputs.v.At(0, 0, j, j) = 1;
  const Fault fault{FaultKind::kDropKey, 0, 5};
  const EmulatedRow row =
      EmulateRow(sample.problem, sample.inputs, kFirstRow, VariantNamed("naive"), fault);
  EXPECT_EQ(std::count(row.out.begin(), row.out.end(), 0.0), 1);
}

TEST(SumsTest, TruncatedAddNeverExceedsTheExactSum) {
  EXPECT_EQ(TruncatedAdd<float>(1.0f, 0x1p-24f), 1.0f);
  EXPECT_EQ(TruncatedAdd<float>(1.0f, 0x1.8p-24f), 1.0f);  // nearest would round up
  EXPECT_EQ(TruncatedAdd<float>(-1.0f, -0x1.8p-24f), -1.0f);
  EXPECT_EQ(TruncatedAdd<float>(1.0f, -0x1p-30f), 0x1.FFFFFEp-1f);  // nearest would stay at 1
  EXPECT_EQ(TruncatedAdd<double>(1.0, 0x1.8p-53), 1.0);
}

TEST(SumsTest, AlignedSumDropsWhatLiesBelowTheLargestAddend) {
  const double addends[] = {1.0, 0x1p-24, 0x1p-24};
  EXPECT_EQ(AlignedSum<float>(addends, 3), 1.0f);  // each is cut before they are added
  const double carried[] = {0x1.FFFFFEp0, 0x1p-23, 0x1p-23};
  EXPECT_EQ(AlignedSum<float>(carried, 3), 2.0f);
  const double cancelling[] = {1.0, -1.0, 0x1p-23};
  EXPECT_EQ(AlignedSum<float>(cancelling, 3), 0x1p-23f);
  const double tiny[] = {0x1p-149, 0x1p-149};
  EXPECT_EQ(AlignedSum<float>(tiny, 2), 0x1p-148f);
}

TEST(TruncateToTest, CutsTowardsZeroInEveryFormat) {
  EXPECT_EQ(TruncateTo(DType::kF16, 1 + 0x1.8p-11), 1.0);
  EXPECT_EQ(TruncateTo(DType::kF16, -1 - 0x1.8p-11), -1.0);
  EXPECT_EQ(TruncateTo(DType::kBF16, 1 + 0x1.8p-8), 1.0);
  EXPECT_EQ(TruncateTo(DType::kF16, 0x1.8p-25), 0.0);
  EXPECT_EQ(TruncateTo(DType::kF16, 65519.0), 65504.0);
  EXPECT_EQ(TruncateTo(DType::kF32, 0.25), 0.25);
}

}  // namespace
}  // namespace attest
