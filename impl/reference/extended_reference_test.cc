#include "impl/reference/extended_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "impl/reference/scalar_reference.h"
#include "impl/reference/testing.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Semantics kZeroRows{EmptyRow::kZero, LseEmptyRow::kMinusInf};
constexpr Array Reference::*kTensors[] = {&Reference::out, &Reference::lse, &Reference::weights,
                                          &Reference::scores};

bool IsSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

Quad Magnitude(Quad x) {
  return x < 0 ? -x : x;
}

// One row that sees every key, in 113 bits.
struct QuadRow {
  std::vector<Quad> scores, weights;
  Quad condition = 0;  // largest sum of |scale q k| of a key
  Quad sum = 0;        // of exp(score - max)
  double max = -kInf;

  QuadRow(const Problem& p, const Inputs& in) {
    for (int64_t j = 0; j < p.kv_len; ++j) {
      Quad dot = 0, magnitude = 0;
      for (int64_t d = 0; d < p.head_dim; ++d) {
        const Quad product = Quad{in.q.At(0, 0, 0, d)} * in.k.At(0, 0, j, d) * p.EffectiveScale();
        dot += product;
        magnitude += Magnitude(product);
      }
      scores.push_back(dot);
      condition = std::max(condition, magnitude);
      max = std::max(max, static_cast<double>(dot));
    }
    for (const Quad score : scores) weights.push_back(QuadExp(score - max));
    for (const Quad weight : weights) sum += weight;
    for (Quad& weight : weights) weight /= sum;
  }

  // Lane d of the output, and the magnitudes it adds up.
  std::pair<Quad, Quad> Out(const Problem& p, const Inputs& in, int64_t d) const {
    Quad out = 0, magnitude = 0;
    for (int64_t j = 0; j < p.kv_len; ++j) {
      const Quad term = weights[static_cast<size_t>(j)] * in.v.At(0, 0, j, d);
      out += term;
      magnitude += Magnitude(term);
    }
    return {out, magnitude};
  }
};

Problem OneRow(int64_t kv_len, int64_t head_dim, int64_t value_dim) {
  Problem p;
  p.dtype = DType::kF64;
  p.kv_len = kv_len;
  p.head_dim = head_dim;
  p.value_dim = value_dim;
  return p;
}

// The header's promise in figures: half an ulp, and 2^-78 for every term of a score, an exponential
// and an output.
TEST(ExtendedReferenceTest, ResultsAreCorrectlyRoundedButForAFewTimesTwoToTheMinus78) {
  RandomProblems random(5);
  for (int round = 0; round < 200; ++round) {
    const Problem p = OneRow(1 + random.Below(60), 1 + random.Below(40), 1 + random.Below(5));
    Inputs in = random.Fill(p, round % 3 == 0 ? 4 : 1);
    if (round % 2) {  // of every size, and with cancelling values
      for (double& x : in.v.values) x *= std::ldexp(1.0, static_cast<int>(random.Below(60)) - 30);
    }
    const QuadRow exact(p, in);
    const Reference r = ComputeExtendedReference(p, in, kZeroRows);
    const Quad of_score = exact.condition * static_cast<double>(p.head_dim + 3) * 0x1p-78;
    const Quad of_weight = 2 * of_score + 0x1p-78;
    for (int64_t j = 0; j < p.kv_len; ++j) {
      const auto at = static_cast<size_t>(j);
      ASSERT_TRUE(Magnitude(r.scores.values[at] - exact.scores[at]) <=
                  Magnitude(exact.scores[at]) * 0x1p-53 + of_score);
      ASSERT_TRUE(Magnitude(r.weights.values[at] - exact.weights[at]) <=
                  exact.weights[at] * (0x1p-53 + of_weight));
    }
    for (int64_t d = 0; d < p.value_dim; ++d) {
      const auto [out, magnitude] = exact.Out(p, in, d);
      const Quad of_sum = static_cast<double>(p.kv_len + 3) * 0x1p-78;
      ASSERT_TRUE(Magnitude(r.out.values[static_cast<size_t>(d)] - out) <=
                  Magnitude(out) * 0x1p-53 + magnitude * (of_sum + of_weight));
    }
    // exp(lse) = sum * exp(max), without a logarithm of 113 bits.
    const double lse = r.lse.values[0], half_ulp = std::max(std::abs(lse), 0x1p-20) * 0x1p-53;
    ASSERT_TRUE(Magnitude(QuadExp(Quad{lse} - exact.max) / exact.sum - 1) <=
                half_ulp * (1 + 0x1p-30) + of_weight);
  }
}

// Values of +-2^40 whose weighted sum nearly cancels: of the double reference's 53 bits some 40 are
// gone, of the extended one's 78 enough are left.
TEST(ExtendedReferenceTest, CancellingValuesKeepTheirDigits) {
  RandomProblems random(6);
  const Problem p = OneRow(64, 16, 1);
  Inputs in = random.Fill(p, 1);
  for (int64_t j = 0; j < p.kv_len; j += 2) {  // each key twice, with opposite values
    for (int64_t d = 0; d < p.head_dim; ++d) in.k.At(0, 0, j + 1, d) = in.k.At(0, 0, j, d);
    in.v.At(0, 0, j, 0) = 0x1p40 * (1 + 0.01 * static_cast<double>(j));
    in.v.At(0, 0, j + 1, 0) = random.Normal(1) - in.v.At(0, 0, j, 0);
  }
  const Quad exact = QuadRow(p, in).Out(p, in, 0).first;
  const auto error = [&](const Reference& r) {
    return static_cast<double>(Magnitude((r.out.values[0] - exact) / exact));
  };
  EXPECT_GT(error(ComputeReference(p, in, kZeroRows)), 1e-6);
  EXPECT_LT(error(ComputeExtendedReference(p, in, kZeroRows)), 1e-9);
}

// Huge products of either sign in q.k: the double reference's scores, and so its weights, are off.
TEST(ExtendedReferenceTest, CancellingScoresKeepTheirDigits) {
  Problem p = OneRow(2, 3, 1);
  p.scale = 1;
  Inputs in{Array(p.QShape(), 1), Array(p.KShape()), Array(p.VShape()), {}};
  in.k.values = {0x1p60, 1, -0x1p60, 0, 0, 0};
  in.v.values = {1, 0};
  const double exact = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(ComputeExtendedReference(p, in, kZeroRows).out.values[0], exact, 0x1p-53);
  EXPECT_EQ(ComputeReference(p, in, kZeroRows).out.values[0], 0.5);
}

// Both end in double, so they differ by one ulp where the 64 bits of long double happened to fall
// on the other side of a tie: seldom.
TEST(ExtendedReferenceTest, AgreesWithLongDoubleToItsLastBits) {
  if (std::numeric_limits<long double>::digits < 64) GTEST_SKIP() << "long double is double";
  RandomProblems random(20261202);
  int elements = 0, others = 0;
  const auto compare = [&](double a, double b) {
    ASSERT_NEAR(a, b, 1e-13);
    ++elements;
    others += !IsSame(a, b);
  };
  for (int round = 0; round < 1000; ++round) {
    Problem p = random.DrawSurface();
    p.dtype = DType::kF64;
    p.bias_dtype.reset();
    p.scale = p.EffectiveScale();
    const Inputs in = random.Fill(p, 1);
    const Reference r = ComputeExtendedReference(p, in, kZeroRows);
    const ScalarReference other = ComputeScalarReference(p, in);
    for (size_t i = 0; i < r.asked_scores.values.size(); ++i) {
      if (std::isfinite(other.asked_scores.values[i])) {
        compare(r.asked_scores.values[i], other.asked_scores.values[i]);
      }
    }
    for (size_t i = 0; i < r.out.values.size(); ++i) compare(r.out.values[i], other.out.values[i]);
    for (size_t i = 0; i < r.weights.values.size(); ++i) {
      compare(r.weights.values[i], other.weights.values[i]);
    }
    for (size_t i = 0; i < r.lse.values.size(); ++i) {
      if (std::isfinite(other.lse.values[i])) compare(r.lse.values[i], other.lse.values[i]);
    }
  }
  EXPECT_GT(elements, 50000);
  EXPECT_LT(others, elements / 100);
}

// Scatters NaN and infinities over problems with every kind of empty row. A row that they reach is
// the double reference's to the bit, any other near it.
TEST(ExtendedReferenceTest, RowsThatAreNotFiniteAreTheDoubleReferences) {
  RandomProblems random(8);
  int finite_rows = 0, other_rows = 0;
  for (int round = 0; round < 1000; ++round) {
    Problem p = random.DrawSurface();
    p.dtype = DType::kF64;
    Inputs in = random.Fill(p, 1);
    for (Array* a : {&in.q, &in.k, &in.v}) {
      for (double& x : a->values) {
        if (random.Below(20) == 0) x = std::vector{kNaN, kInf, -kInf}[random.Below(3)];
      }
    }
    const Semantics semantics{static_cast<EmptyRow>(random.Below(5)),
                              static_cast<LseEmptyRow>(random.Below(4)),
                              static_cast<SoftcapOrder>(random.Below(2))};
    const Reference plain = ComputeReference(p, in, semantics);
    const Reference extended = ComputeExtendedReference(p, in, semantics);
    ForEachRow(p, [&](const Row& row) {
      bool same = true, near = true;
      for (const auto tensor : kTensors) {
        const Array &a = plain.*tensor, &b = extended.*tensor;
        for (int64_t d = 0; d < a.shape[3]; ++d) {
          const double x = a.At(row.batch, row.head, row.query, d);
          const double y = b.At(row.batch, row.head, row.query, d);
          same = same && IsSame(x, y);
          near = near && (IsSame(x, y) || std::abs(x - y) < 1e-12 * (1 + std::abs(x)));
        }
      }
      ASSERT_TRUE(near) << "round " << round;
      ++(same ? other_rows : finite_rows);
    });
  }
  EXPECT_GT(finite_rows, 1000);
  EXPECT_GT(other_rows, 1000);
}

TEST(ExtendedReferenceTest, HugeAndTinyValuesComeThrough) {
  Problem p = OneRow(2, 1, 3);
  Inputs in{Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), {}};
  in.v.values = {1.5e308, 3e-310, 0x1p-1074, 1e308, 1e-310, 0x1p-1074};
  EXPECT_DOUBLE_EQ(ComputeExtendedReference(p, in, kZeroRows).out.values[0], 1.25e308)
      << "2.5e308 before the division: the double reference's row";
  in.v.values[0] = 0.5e308;
  const Reference r = ComputeExtendedReference(p, in, kZeroRows);
  EXPECT_EQ(r.out.values[0], 0.75e308);
  EXPECT_NEAR(r.out.values[1], 2e-310, 0x1p-1073);
  EXPECT_EQ(r.out.values[2], 0x1p-1074);
}

TEST(ExtendedReferenceTest, OnlyKernelsThatAccumulateInF64NeedIt) {
  EXPECT_TRUE(NeedsExtendedReference(DefaultNumerics(DType::kF64)));
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_FALSE(NeedsExtendedReference(DefaultNumerics(dtype)));
  }
  Contract contract;
  contract.semantics = kZeroRows;
  RandomProblems random(9);
  Problem p = OneRow(64, 16, 8);
  const Inputs in = random.Fill(p, 1);
  EXPECT_EQ(ReferenceFor(p, in, contract).out, ComputeExtendedReference(p, in, kZeroRows).out);
  p.dtype = DType::kF32;
  EXPECT_EQ(ReferenceFor(p, in, contract).out, ComputeReference(p, in, kZeroRows).out);
}

// The low part of a huge score is more than exp can take: the maximum must go with its own.
TEST(ExtendedReferenceTest, HugeScoresHaveAnLseWithAndWithoutValues) {
  for (const int64_t value_dim : {0, 1}) {
    Problem p;
    p.dtype = DType::kF64;
    p.head_dim = 2;
    p.value_dim = value_dim;
    Inputs in{
        Array(p.QShape(), 1), Array(p.KShape(), 7.089215554969351e+36), Array(p.VShape(), 1), {}};
    const Reference reference = ReferenceFor(p, in, *ParseContract(R"({"contract": "attest-1"})"));
    EXPECT_NEAR(reference.lse.values[0] / (2 * 7.089215554969351e+36 / std::sqrt(2.0)), 1, 1e-15);
    for (const double out : reference.out.values) EXPECT_EQ(out, 1);
  }
}

}  // namespace
}  // namespace attest
