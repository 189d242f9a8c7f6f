#include "impl/reference/bound.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "impl/attention/testing/repetitions.h"
#include "impl/attention/visibility.h"
#include "impl/reference/extended_reference.h"
#include "impl/reference/float_kernel.h"
#include "impl/reference/testing.h"

namespace attest {
namespace {

constexpr Semantics kZeroRows{EmptyRow::kZero, LseEmptyRow::kMinusInf};

Contract StrictContract() {
  return *ParseContract(R"({"contract": "attest-1"})");
}

BoundArrays WorstOf(const Problem& p, const Inputs& in, const Reference& reference) {
  const Contract contract = StrictContract();
  ErrorBound bound(p, in, reference, contract);
  return ArraysOf(p, bound, &ErrorBound::WorstOf);
}

// Runs `visit(kernel value, reference value, bound)` over every out and lse of constrained rows.
void ForEachElement(const Problem& p, const Inputs& in, const FloatVariant& variant,
                    const std::function<void(double, double, double)>& visit) {
  const Reference reference = ComputeReference(p, in, kZeroRows);
  const BoundArrays bound = WorstOf(p, in, reference);
  ForEachRow(p, [&](const Row& row) {
    const FloatRow got = RunFloatRow(p, in, row, variant);
    for (int64_t d = 0; d < p.value_dim; ++d) {
      visit(got.out[static_cast<size_t>(d)], reference.out.At(row.batch, row.head, row.query, d),
            bound.out.At(row.batch, row.head, row.query, d));
    }
    visit(got.lse, reference.lse.At(row.batch, row.head, row.query, 0),
          bound.lse.At(row.batch, row.head, row.query, 0));
  });
}

bool Within(double got, double want, double bound) {
  return got == want || std::abs(got - want) <= bound;
}

TEST(BoundTest, NoCorrectVariantExceedsIt) {
  RandomProblems random(7);
  int64_t checked = 0;
  for (int round = 0; round < Repetitions(500); ++round) {
    const Problem p = random.Draw();
    const Inputs in = random.Fill(p, std::pow(10.0, static_cast<double>(round % 5) - 2));
    for (const FloatVariant& variant : kFloatVariants) {
      ForEachElement(p, in, variant, [&](double got, double want, double bound) {
        ++checked;
        ASSERT_TRUE(Within(got, want, bound))
            << "round " << round << ": " << got << " for " << want << " +- " << bound;
      });
    }
  }
  EXPECT_GT(checked, 100000);
}

TEST(BoundTest, ItIsTightEnoughToSeeOneDroppedKeyOfAThousand) {
  Problem p;
  p.kv_len = 1000;
  p.head_dim = 64;
  p.value_dim = 8;
  RandomProblems random(3);
  const Inputs in = random.Fill(p, 1);
  Problem dropped = p;
  dropped.key_lengths = {999};
  const Reference reference = ComputeReference(p, in, kZeroRows);
  const BoundArrays bound = WorstOf(p, in, reference);
  const FloatRow got = RunFloatRow(dropped, in, Row{}, {64});
  int seen = 0;
  for (int64_t d = 0; d < p.value_dim; ++d) {
    seen += !Within(got.out[static_cast<size_t>(d)], reference.out.values[static_cast<size_t>(d)],
                    bound.out.values[static_cast<size_t>(d)]);
  }
  EXPECT_GT(seen, 0);
  EXPECT_FALSE(Within(got.lse, reference.lse.values[0], bound.lse.values[0]));
}

TEST(BoundTest, AConstantColumnIsImmuneToScoreErrors) {
  Problem p;
  p.kv_len = 8;
  p.head_dim = 4;
  RandomProblems random(5);
  Inputs in = random.Fill(p, 30);
  std::fill(in.v.values.begin(), in.v.values.end(), 1.0);
  const Reference reference = ComputeReference(p, in, kZeroRows);
  // What remains is summing and dividing, and |m| through an un-renormalised merge.
  EXPECT_LT(WorstOf(p, in, reference).out.values[0], 1e-3);
  EXPECT_GT(WorstOf(p, in, reference).out.values[0], 1e-7);
}

TEST(BoundTest, RowsThatMayOverflowAreUnconstrainedAndHugeScoresUninformative) {
  Problem p;
  p.kv_len = 3;
  p.head_dim = 2;
  p.scale = 1.0;
  RandomProblems random(5);
  Inputs in = random.Fill(p, 1);
  std::fill(in.k.values.begin(), in.k.values.end(), 1.0);  // tied scores: every rounding counts
  const auto state = [&](double size) {
    Inputs scaled = in;
    std::fill(scaled.q.values.begin(), scaled.q.values.end(), size);
    const Reference reference = ComputeReference(p, scaled, kZeroRows);
    const Contract contract = StrictContract();
    return ErrorBound(p, scaled, reference, contract).StateOf({});
  };
  EXPECT_EQ(state(1), RowState::kInformative);
  EXPECT_EQ(state(1e7), RowState::kUninformative);
  EXPECT_EQ(state(0x1p127), RowState::kUnconstrained);
}

// 0 / infinity times infinity is NaN, and so is a slope of infinity times a distance of 0.
TEST(BoundTest, ParametersBeyondTheTypeOfTheScoresUnconstrain) {
  const auto state = [](DType scores, double softcap, double slope, double scale = 1) {
    Problem p;
    p.dtype = DType::kF16;
    p.scale = scale;
    p.softcap = softcap;
    p.alibi_slopes = {slope};
    const Inputs in{Array(p.QShape()), Array(p.KShape(), 1), Array(p.VShape(), 1), {}};
    Contract contract = StrictContract();
    contract.numerics.at(DType::kF16).scores = scores;
    contract.numerics.at(DType::kF16).scale_placement =
        scores == DType::kF16 ? ScalePlacement::kStorage : ScalePlacement::kAccumulator;
    const Reference reference = ComputeReference(p, in, kZeroRows);
    return ErrorBound(p, in, reference, contract).StateOf({});
  };
  EXPECT_EQ(state(DType::kF16, 50, 2), RowState::kInformative);
  EXPECT_EQ(state(DType::kF16, 0x1p20, 2), RowState::kUnconstrained);
  EXPECT_EQ(state(DType::kF16, 0x1p-20, 2), RowState::kUnconstrained);
  EXPECT_EQ(state(DType::kF16, 50, -0x1p20), RowState::kUnconstrained);
  EXPECT_EQ(state(DType::kF16, 50, 2, 1e30), RowState::kUnconstrained);
  EXPECT_EQ(state(DType::kF32, 0x1p20, 2, 1e30), RowState::kInformative);
  EXPECT_EQ(state(DType::kF32, 0x1p-20, -0x1p20), RowState::kInformative);
}

TEST(BoundTest, HiddenPoisonUnconstrainsOnlyWhereItIsNotPromisedSafe) {
  Problem p;
  p.kv_len = 2;
  p.key_lengths = {1};
  RandomProblems random(5);
  Inputs in = random.Fill(p, 1);
  in.v.values[1] = std::nan("");
  const Reference reference = ComputeReference(p, in, kZeroRows);
  Contract contract = StrictContract();
  EXPECT_EQ(ErrorBound(p, in, reference, contract).StateOf({}), RowState::kInformative);
  contract.poison_safe.clear();
  EXPECT_EQ(ErrorBound(p, in, reference, contract).StateOf({}), RowState::kUnconstrained);
}

// Random problems of every type, under the default and under odd profiles.
class TierTest : public testing::TestWithParam<DType> {
 protected:
  TierTest() : random_(11) {}

  Problem Draw(Inputs& in, int round) {
    Problem p = random_.DrawSurface();
    p.dtype = GetParam();
    p.want_weights = round % 2 == 0;
    in = random_.Fill(p, std::pow(10.0, static_cast<double>(round % 7) - 3));
    return p;
  }

  Contract ContractFor(int round) {
    Contract contract = StrictContract();
    NumericsProfile& profile = contract.numerics[GetParam()];
    if (round % 3 == 1) profile.scores = profile.probability = DType::kBF16;
    if (round % 3 == 2) {
      profile.scale_placement = ScalePlacement::kStorage;
      profile.truncating_accumulators = profile.lse_of_rounded_weights = true;
      profile.flush_to_zero = true;
      profile.summation_block = 3;
    }
    if (round % 11 == 0) profile.accumulate = DType::kF16;
    if (round % 2) contract.semantics.softcap_order = SoftcapOrder::kAfterBias;
    if (round % 13 == 0) contract.masking_value = MaskingValue{-1e4, round % 26 == 0};
    return contract;
  }

  RandomProblems random_;
};

testing::AssertionResult AtMost(const RowNumbers& a, const RowNumbers& b) {
  const auto numbers = [](const RowNumbers& row) {
    std::vector<double> all = row.out;
    all.push_back(row.lse);
    all.insert(all.end(), row.weights.begin(), row.weights.end());
    all.insert(all.end(), row.scores.begin(), row.scores.end());
    return all;
  };
  const std::vector<double> x = numbers(a), y = numbers(b);
  for (size_t n = 0; n < x.size(); ++n) {
    if (x[n] <= y[n] * (1 + 1e-12)) continue;
    return testing::AssertionFailure() << "element " << n << " of " << a.out.size()
                                       << " out, 1 lse, weights: " << x[n] << " exceeds " << y[n];
  }
  return testing::AssertionSuccess();
}

RowNumbers FloorOf(ErrorBound& bound, const Reference& reference, const Row& row) {
  const RowFloor floor = bound.FloorOf(row);
  RowNumbers numbers = bound.WorstOf(row);
  numbers.lse = floor.lse;
  const auto at = [&](const Array& array, size_t lane) {
    return array.At(row.batch, row.head, row.query, static_cast<int64_t>(lane));
  };
  for (size_t d = 0; d < numbers.out.size(); ++d) numbers.out[d] = floor.Out(at(reference.out, d));
  for (size_t j = 0; j < numbers.weights.size(); ++j) {
    const double w = at(reference.weights, j);
    numbers.weights[j] = w > 0 ? floor.Weight(w) : 0;
  }
  return numbers;
}

// What is settled beyond its share of W must lie within P.
RowNumbers SettledOf(ErrorBound& bound, const Reference& reference, const Row& row) {
  const RowFloor floor = bound.FloorOf(row);
  RowNumbers numbers = bound.ProbableOf(row);
  const auto beyond = [](double settled, double worst) {
    return settled > kSettledShare * worst ? settled : 0;
  };
  const auto at = [&](const Array& array, size_t lane) {
    return array.At(row.batch, row.head, row.query, static_cast<int64_t>(lane));
  };
  numbers.lse = 0;
  for (size_t d = 0; d < numbers.out.size(); ++d) {
    const double o = at(reference.out, d);
    numbers.out[d] = beyond(floor.SettledOut(o), floor.Out(o));
  }
  for (size_t j = 0; j < numbers.weights.size(); ++j) {
    const double w = at(reference.weights, j);
    numbers.weights[j] = w > 0 ? beyond(floor.SettledWeight(w), floor.Weight(w)) : 0;
  }
  return numbers;
}

TEST_P(TierTest, EachTierIsAtMostTheSurerOne) {
  int64_t finite = 0;
  for (int round = 0; round < 1500; ++round) {
    Inputs in;
    const Problem p = Draw(in, round);
    const Contract contract = ContractFor(round);
    const Reference reference = ReferenceFor(p, in, contract);
    ErrorBound bound(p, in, reference, contract);
    ForEachRow(p, [&](const Row& row) {
      ASSERT_TRUE(AtMost(bound.WorstOf(row), bound.CheapOf(row))) << "round " << round;
      ASSERT_TRUE(AtMost(FloorOf(bound, reference, row), bound.WorstOf(row))) << "round " << round;
      ASSERT_TRUE(AtMost(bound.ProbableOf(row), bound.WorstOf(row))) << "round " << round;
      ASSERT_TRUE(AtMost(SettledOf(bound, reference, row), bound.ProbableOf(row)))
          << "round " << round;
      ASSERT_TRUE(AtMost(bound.SpreadOf(row), bound.ProbableOf(row))) << "round " << round;
      for (const double w : bound.WorstOf(row).out) finite += std::isfinite(w) && w > 0;
    });
  }
  EXPECT_GT(finite, 10000);
}

// Whatever a kernel declares in addition, it is forgiven more.
TEST_P(TierTest, EveryDeclarationWidensTheBoundAndABlockNarrowsIt) {
  const DType narrower = GetParam() == DType::kF16 ? DType::kF16 : DType::kBF16;
  const std::pair<const char*, std::function<void(NumericsProfile&)>> kWider[] = {
      {"exp_ulp", [](NumericsProfile& n) { n.exp_ulp = 400; }},
      {"scores", [&](NumericsProfile& n) { n.scores = narrower; }},
      {"truncating", [](NumericsProfile& n) { n.truncating_accumulators = true; }},
      {"accumulate", [&](NumericsProfile& n) { n.accumulate = narrower; }},
      {"truncate", [](NumericsProfile& n) { n.output_rounding = OutputRounding::kTruncate; }}};
  Problem p;
  p.dtype = GetParam();
  p.kv_len = 60;
  p.head_dim = 16;
  p.value_dim = 3;
  p.scale = 0.3;
  Inputs in = random_.Fill(p, 1);
  for (Array* array : {&in.q, &in.k, &in.v}) {
    for (double& x : array->values) x = RoundTo(p.dtype, x);
  }
  const auto worst = [&](const Contract& contract) {
    const Reference reference = ReferenceFor(p, in, contract);
    return ErrorBound(p, in, reference, contract).WorstOf({});
  };
  const RowNumbers plain = worst(StrictContract());
  for (const auto& [name, widen] : kWider) {
    Contract contract = StrictContract();
    widen(contract.numerics[GetParam()]);
    EXPECT_GT(worst(contract).out[0], plain.out[0]) << name;
  }
  Contract blocks = StrictContract();
  blocks.numerics[GetParam()].summation_block = 8;
  EXPECT_LT(worst(blocks).lse, plain.lse);
}

INSTANTIATE_TEST_SUITE_P(DTypes, TierTest,
                         testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST(BoundTest, AnF16OutputNearTheEndOfItsRangeIsUnconstrained) {
  Problem p;
  p.dtype = DType::kF16;
  p.kv_len = 2;
  RandomProblems random(5);
  Inputs in = random.Fill(p, 0);
  const Contract contract = StrictContract();
  const auto state = [&](double v) {
    in.v.values = {v, v};
    const Reference reference = ReferenceFor(p, in, contract);
    return ErrorBound(p, in, reference, contract).StateOf({});
  };
  EXPECT_EQ(state(60000), RowState::kInformative);
  EXPECT_EQ(state(65504), RowState::kUnconstrained);
}

// Scores that cancel from 1e36: each weight may be anything, and out anywhere in the hull.
TEST(BoundTest, WhereErrorsExceedWhatExpCanHoldTheWholeHullIsReachable) {
  Problem p;
  p.kv_len = 3;
  p.head_dim = 2;
  Inputs in{Array({1, 1, 1, 2}), Array({1, 1, 3, 2}), Array({1, 1, 3, 1}), {}};
  in.q.values = {1, -1};
  in.k.values = {0, 0, 1e36, 1e36, 1e36, 1e36};
  in.v.values = {0, 1, 1};
  const Contract contract = StrictContract();
  const Reference reference = ReferenceFor(p, in, contract);
  ErrorBound bound(p, in, reference, contract);
  EXPECT_EQ(bound.StateOf({}), RowState::kUninformative);
  EXPECT_GE(bound.WorstOf({}).out[0], 2.0 / 3);
  EXPECT_GE(bound.WorstOf({}).lse, 1e28) << "a score may round to a hundred-millionth of 1e36";
}

TEST(BoundTest, F64IsHeldToItsOwnPrecision) {
  Problem p;
  p.dtype = DType::kF64;
  p.kv_len = 40;
  p.head_dim = 8;
  RandomProblems random(9);
  const Inputs in = random.Fill(p, 1);
  const Contract contract = StrictContract();
  const Reference reference = ReferenceFor(p, in, contract);
  const RowNumbers worst = ErrorBound(p, in, reference, contract).WorstOf({});
  EXPECT_LT(worst.out[0], 1e-12);
  EXPECT_GT(worst.out[0], 1e-16);
}

}  // namespace
}  // namespace attest
