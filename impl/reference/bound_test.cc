#include "impl/reference/bound.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "impl/reference/testing.h"

namespace attest {
namespace {

constexpr Semantics kZeroRows{EmptyRow::kZero, LseEmptyRow::kMinusInf};

Contract StrictContract() {
  return *ParseContract(R"({"contract": "attest-1"})");
}

// One row of a correct float kernel: online softmax over tiles, in a choice of orders and forms.
struct FloatVariant {
  int64_t tile = 1;
  bool reversed = false;
  bool base2 = false;  // exp2 with log2e folded into the scale
  bool scale_on_query = false;
  float exp_error = 0;  // relative, in ulp
};

struct FloatRow {
  std::vector<float> out;
  float lse = 0;
};

FloatRow RunFloatRow(const Problem& p, const Inputs& in, const Row& row, const FloatVariant& v) {
  std::vector<int64_t> keys = VisibleKeys(p, row);
  if (v.reversed) std::reverse(keys.begin(), keys.end());
  const float scale = static_cast<float>(p.EffectiveScale());
  const int64_t kv_head = row.head / p.heads_per_kv_head();
  constexpr float kLog2E = 1.44269504f;
  const auto bend = [&](float x) { return x == 1 ? x : x * (1 + v.exp_error * 0x1p-23f); };
  const auto exp_of = [&](float x) { return bend(v.base2 ? std::exp2(x) : std::exp(x)); };
  const auto score_of = [&](int64_t j) {
    float dot = 0;
    for (int64_t d = 0; d < p.head_dim; ++d) {
      float q = static_cast<float>(in.q.At(row.batch, row.head, row.query, d));
      if (v.scale_on_query) q *= scale;
      dot += q * static_cast<float>(in.k.At(row.batch, kv_head, j, d));
    }
    if (!v.scale_on_query) dot *= scale;
    if (p.bias) {
      const Shape4& s = in.bias.shape;
      dot += static_cast<float>(
          in.bias.At(row.batch % s[0], row.head % s[1], row.query % s[2], j % s[3]));
    }
    return v.base2 ? dot * kLog2E : dot;
  };
  FloatRow result{std::vector<float>(static_cast<size_t>(p.value_dim), 0.0f), 0};
  float max = -INFINITY, sum = 0;
  for (size_t first = 0; first < keys.size(); first += static_cast<size_t>(v.tile)) {
    const size_t last = std::min(keys.size(), first + static_cast<size_t>(v.tile));
    float new_max = max;
    for (size_t n = first; n < last; ++n) new_max = std::max(new_max, score_of(keys[n]));
    const float correction = max == new_max ? 1.0f : exp_of(max - new_max);
    sum *= correction;
    for (float& x : result.out) x *= correction;
    for (size_t n = first; n < last; ++n) {
      const float weight = exp_of(score_of(keys[n]) - new_max);
      sum += weight;
      for (int64_t d = 0; d < p.value_dim; ++d) {
        result.out[static_cast<size_t>(d)] +=
            weight * static_cast<float>(in.v.At(row.batch, kv_head, keys[n], d));
      }
    }
    max = new_max;
  }
  for (float& x : result.out) x = keys.empty() ? 0 : x / sum;
  result.lse = (v.base2 ? max / kLog2E : max) + std::log(sum);
  return result;
}

// Runs `visit(kernel value, reference value, bound)` over every out and lse of constrained rows.
void ForEachElement(const Problem& p, const Inputs& in, const FloatVariant& variant,
                    const std::function<void(double, double, double)>& visit) {
  const Reference reference = ComputeReference(p, in, kZeroRows);
  const Bound bound = ComputeBound(p, in, reference, StrictContract());
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
  const FloatVariant kVariants[] = {{1, false, false, false, 0}, {4, false, true, false, 0},
                                    {3, true, false, true, 0},   {100, false, true, true, 3},
                                    {1, true, true, false, -3},  {2, false, false, false, 3.4f}};
  RandomProblems random(7);
  int64_t checked = 0;
  for (int round = 0; round < 1500; ++round) {
    const Problem p = random.Draw();
    const Inputs in = random.Fill(p, std::pow(10.0, static_cast<double>(round % 5) - 2));
    for (const FloatVariant& variant : kVariants) {
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
  const Bound bound = ComputeBound(p, in, reference, StrictContract());
  const FloatRow got = RunFloatRow(dropped, in, Row{}, {64, false, false, false, 0});
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
  EXPECT_LT(ComputeBound(p, in, reference, StrictContract()).out.values[0], 1e-3);
  EXPECT_GT(ComputeBound(p, in, reference, StrictContract()).out.values[0], 1e-7);
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
    return ComputeBound(p, scaled, reference, StrictContract()).rows[0];
  };
  EXPECT_EQ(state(1), RowState::kInformative);
  EXPECT_EQ(state(1e7), RowState::kUninformative);
  EXPECT_EQ(state(0x1p127), RowState::kUnconstrained);
}

TEST(BoundTest, HiddenPoisonUnconstrainsOnlyWhereItIsNotPromisedSafe) {
  Problem p;
  p.kv_len = 2;
  p.key_lengths = {1};
  RandomProblems random(5);
  Inputs in = random.Fill(p, 1);
  in.v.values[1] = std::nan("");
  const Reference reference = ComputeReference(p, in, kZeroRows);
  EXPECT_EQ(ComputeBound(p, in, reference, StrictContract()).rows[0], RowState::kInformative);
  Contract lax = StrictContract();
  lax.poison_safe.clear();
  EXPECT_EQ(ComputeBound(p, in, reference, lax).rows[0], RowState::kUnconstrained);
}

TEST(BoundTest, OnlyF32HasABoundSoFar) {
  EXPECT_TRUE(HasBound(DType::kF32));
  EXPECT_FALSE(HasBound(DType::kF16));
  EXPECT_FALSE(HasBound(DType::kBF16));
  EXPECT_FALSE(HasBound(DType::kF64));
}

}  // namespace
}  // namespace attest
