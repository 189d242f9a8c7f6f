#include "impl/reference/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/attention/visibility.h"
#include "impl/reference/extended_reference.h"
#include "impl/reference/testing.h"

namespace attest {
namespace {

using testing::Each;

const Contract& Strict() {
  static const Contract kContract = *ParseContract(R"({"contract": "attest-1"})");
  return kContract;
}

Problem DrawGradientProblem(RandomProblems& random) {
  Problem p = random.DrawSurface();
  p.fp8.reset();
  p.want_weights = false;
  p.want_scores.reset();
  p.want_gradients = true;
  return p;
}

Inputs FillWithDout(RandomProblems& random, const Problem& p, double sigma) {
  Inputs in = random.Fill(p, sigma);
  in.dout = Array(p.OutShape());
  ForEachRow(p, [&](const Row& row) {
    for (int64_t d = 0; d < p.value_dim && !IsPaddedQuery(p, row); ++d) {
      in.dout.At(row.batch, row.head, row.query, d) = RoundTo(p.dtype, random.Normal(1));
    }
  });
  return in;
}

// sum(dout * out), of the forward reference alone.
double Loss(const Problem& p, const Inputs& in, const Semantics& semantics) {
  const Reference reference = ComputeReference(p, in, semantics);
  double loss = 0;
  for (size_t n = 0; n < in.dout.values.size(); ++n) {
    loss += in.dout.values[n] * reference.out.values[n];
  }
  return loss;
}

// Central differences of the loss by every element of one input.
void ExpectDifferences(const Problem& p, const Inputs& in, const Semantics& semantics,
                       Array Inputs::*input, const Array& gradient, const std::string& what) {
  constexpr double kStep = 1e-5;
  for (size_t n = 0; n < (in.*input).values.size(); ++n) {
    Inputs up = in, down = in;
    (up.*input).values[n] += kStep;
    (down.*input).values[n] -= kStep;
    const double slope = (Loss(p, up, semantics) - Loss(p, down, semantics)) / (2 * kStep);
    ASSERT_NEAR(gradient.values[n], slope, 2e-8 * (1 + std::abs(slope))) << what << " " << n;
  }
}

// The same of the sinks, which stand in the problem.
void ExpectSinkDifferences(const Problem& p, const Inputs& in, const Semantics& semantics,
                           const Array& gradient, const std::string& what) {
  constexpr double kStep = 1e-5;
  for (size_t h = 0; p.sinks && h < p.sinks->size(); ++h) {
    Problem up = p, down = p;
    (*up.sinks)[h] += kStep;
    (*down.sinks)[h] -= kStep;
    const double slope = (Loss(up, in, semantics) - Loss(down, in, semantics)) / (2 * kStep);
    ASSERT_NEAR(gradient.values[h], slope, 2e-8 * (1 + std::abs(slope))) << what << " " << h;
  }
}

void ExpectAllDifferences(const Problem& p, const Inputs& in, const Semantics& semantics,
                          const std::string& where) {
  const Gradient gradient = ComputeGradient(p, in, ComputeReference(p, in, semantics), semantics);
  ExpectDifferences(p, in, semantics, &Inputs::q, gradient.dq, where + " dq");
  ExpectDifferences(p, in, semantics, &Inputs::k, gradient.dk, where + " dk");
  ExpectDifferences(p, in, semantics, &Inputs::v, gradient.dv, where + " dv");
  ExpectDifferences(p, in, semantics, &Inputs::bias, gradient.dbias, where + " dbias");
  ExpectSinkDifferences(p, in, semantics, gradient.dsink, where + " dsink");
}

TEST(GradientTest, FiniteDifferencesAgree) {
  RandomProblems random(31);
  for (int round = 0; round < 60; ++round) {
    Problem p = DrawGradientProblem(random);
    p.dtype = DType::kF64;
    p.bias_dtype.reset();
    if (p.scale) p.scale = std::clamp(*p.scale, -1.0, 1.0);
    if (p.softcap > 0) p.softcap = std::max(p.softcap, 0.5);
    const Inputs in = FillWithDout(random, p, 0.7);
    Semantics semantics;
    if (round % 2 == 1) semantics.softcap_order = SoftcapOrder::kAfterBias;
    ExpectAllDifferences(p, in, semantics, "round " + std::to_string(round));
  }
}

// Two query heads over a kv head, two rows, three keys: every mask of one head, whatever hides or not.
TEST(GradientTest, FiniteDifferencesAgreeUnderEveryMaskOfTwoRowsAndThreeKeys) {
  RandomProblems random(33);
  for (unsigned bits = 0; bits < 64; ++bits) {
    for (const Extra extra : {Extra::kSoftcap, Extra::kAlibi, Extra::kSinks, Extra::kDropout}) {
      Problem p;
      p.dtype = DType::kF64;
      p.q_heads = 2;
      p.q_len = 2;
      p.kv_len = 3;
      p.value_dim = 2;
      p.mask = BitPlane{{1, 1, 2, 3}, 4, {}};
      for (unsigned n = 0; n < 6; ++n) p.mask->bits.push_back((bits >> n) & 1);
      p.want_gradients = true;
      random.Add(extra, p);
      const Inputs in = FillWithDout(random, p, 1);
      ExpectAllDifferences(p, in, {}, "mask " + std::to_string(bits));
    }
  }
}

// A correct backward of another order of summation, in f32: rows from last to first, keys from last to
// first, the softmax computed anew, D as the sum of P dP.
class BackwardLoop {
 public:
  BackwardLoop(const Problem& p, const Inputs& in) : p_(p), in_(in) {
    result_ = {Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), {}, {}};
    if (p.bias) result_.dbias = Array(p.bias->shape);
    if (p.sinks) result_.dsink = Array({1, p.q_heads, 1, 1});
  }

  Gradient Run() {
    for (int64_t h = p_.q_heads - 1; h >= 0; --h) {
      for (int64_t b = 0; b < p_.batch; ++b) {
        for (int64_t i = p_.q_len - 1; i >= 0; --i) RunRow({b, h, i});
      }
    }
    for (Array* array : {&result_.dq, &result_.dk, &result_.dv}) {
      for (double& x : array->values) x = RoundTo(p_.dtype, x);
    }
    for (double& x : result_.dbias.values) x = RoundTo(p_.BiasDType(), x);
    return result_;
  }

 private:
  static float Float(double x) { return static_cast<float>(x); }
  static void AddTo(double& sum, float term) { sum = Float(Float(sum) + term); }

  float Score(const Row& row, int64_t j) {
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    float s = 0;
    for (int64_t d = p_.head_dim - 1; d >= 0; --d) {
      s += Float(in_.q.At(row.batch, row.head, row.query, d)) * Float(p_.EffectiveScale()) *
           Float(in_.k.At(row.batch, kv_head, j, d));
    }
    slope_ = 1;
    if (p_.softcap > 0) {
      const float tanh = std::tanh(s / Float(p_.softcap));
      s = tanh * Float(p_.softcap);
      slope_ = 1 - tanh * tanh;
    }
    if (p_.bias) s += Float(in_.bias.Broadcast(row.batch, row.head, row.query, j));
    return s + Float(p_.Alibi(row.batch, row.head, row.query, j));
  }

  void RunRow(const Row& row) {
    if (IsPaddedQuery(p_, row)) return;
    std::vector<int64_t> keys = VisibleKeys(p_, row);
    std::reverse(keys.begin(), keys.end());
    float max = p_.sinks ? Float((*p_.sinks)[static_cast<size_t>(row.head)]) : -INFINITY;
    const float sink = max;
    for (const int64_t j : keys) max = std::max(max, Score(row, j));
    float sum = p_.sinks ? std::exp(sink - max) : 0;
    for (const int64_t j : keys) sum += std::exp(Score(row, j) - max);
    float delta = 0;
    for (const int64_t j : keys) delta += std::exp(Score(row, j) - max) / sum * Dweight(row, j);
    for (const int64_t j : keys) AddPair(row, j, max, sum, delta);
    if (!p_.sinks) return;
    AddTo(result_.dsink.At(0, row.head, 0, 0), -delta * (std::exp(sink - max) / sum));
  }

  double& DbiasOf(const Row& row, int64_t j) {
    const Shape4& shape = p_.bias->shape;
    return result_.dbias.At(shape[0] == 1 ? 0 : row.batch, shape[1] == 1 ? 0 : row.head,
                            shape[2] == 1 ? 0 : row.query, shape[3] == 1 ? 0 : j);
  }

  float Kept(const Row& row, int64_t j) const {
    if (!p_.dropout) return 1;
    const bool kept = p_.dropout->keep.At(row.batch, row.head, row.query, j);
    return kept ? 1 / (1 - Float(p_.dropout->probability)) : 0;
  }

  float Dweight(const Row& row, int64_t j) const {
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    float dot = 0;
    for (int64_t d = p_.value_dim - 1; d >= 0; --d) {
      dot += Float(in_.dout.At(row.batch, row.head, row.query, d)) *
             Float(in_.v.At(row.batch, kv_head, j, d));
    }
    return dot * Kept(row, j);
  }

  void AddPair(const Row& row, int64_t j, float max, float sum, float delta) {
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    const float weight = std::exp(Score(row, j) - max) / sum;
    const float dlogit = weight * Dweight(row, j) - weight * delta;
    if (p_.bias) AddTo(DbiasOf(row, j), dlogit);
    const float dscore = dlogit * slope_ * Float(p_.EffectiveScale());
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      AddTo(result_.dq.At(row.batch, row.head, row.query, d),
            dscore * Float(in_.k.At(row.batch, kv_head, j, d)));
      AddTo(result_.dk.At(row.batch, kv_head, j, d),
            dscore * Float(in_.q.At(row.batch, row.head, row.query, d)));
    }
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      AddTo(result_.dv.At(row.batch, kv_head, j, d),
            weight * Kept(row, j) * Float(in_.dout.At(row.batch, row.head, row.query, d)));
    }
  }

  const Problem& p_;
  const Inputs& in_;
  float slope_ = 1;  // of the softcap, at the score last computed
  Gradient result_;
};

void ExpectWithin(const Array& observed, const Array& due, const Array& bound,
                  const std::string& what) {
  for (size_t n = 0; n < due.values.size(); ++n) {
    if (std::isinf(bound.values[n])) continue;
    ASSERT_LE(std::abs(observed.values[n] - due.values[n]), bound.values[n])
        << what << " element " << n << " due " << due.values[n];
  }
}

class GradientBoundTest : public testing::TestWithParam<DType> {};

TEST_P(GradientBoundTest, HoldsForAnotherOrderOfSummation) {
  RandomProblems random(32);
  for (int round = 0; round < 400; ++round) {
    Problem p = DrawGradientProblem(random);
    p.dtype = GetParam();
    const Inputs in = FillWithDout(random, p, round % 4 == 3 ? 6 : 1);
    const Reference reference = ReferenceFor(p, in, Strict());
    ErrorBound forward(p, in, reference, Strict());
    const Gradient due = ComputeGradient(p, in, reference, Strict().semantics);
    const Gradient bound = BoundGradient(p, in, reference, due, forward, Strict());
    const Gradient observed = BackwardLoop(p, in).Run();
    const std::string where = "round " + std::to_string(round);
    ExpectWithin(observed.dq, due.dq, bound.dq, where + " dq");
    ExpectWithin(observed.dk, due.dk, bound.dk, where + " dk");
    ExpectWithin(observed.dv, due.dv, bound.dv, where + " dv");
    ExpectWithin(observed.dbias, due.dbias, bound.dbias, where + " dbias");
    ExpectWithin(observed.dsink, due.dsink, bound.dsink, where + " dsink");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GradientBoundTest,
                         testing::Values(DType::kF32, DType::kF16, DType::kBF16));

TEST(GradientBoundEdgesTest, IsZeroWhereNoRowSeesAKeyAndFiniteElsewhere) {
  Problem p;
  p.q_len = p.kv_len = 3;
  p.head_dim = p.value_dim = 2;
  p.key_lengths = {2};
  p.want_gradients = true;
  Inputs in{
      Array(p.QShape(), 1), Array(p.KShape(), 1), Array(p.VShape(), 1), {}, Array(p.OutShape(), 1)};
  in.k.At(0, 0, 2, 0) = in.v.At(0, 0, 2, 1) = std::numeric_limits<double>::quiet_NaN();
  const Reference reference = ComputeReference(p, in, {});
  ErrorBound forward(p, in, reference, Strict());
  const Gradient due = ComputeGradient(p, in, reference, Strict().semantics);
  const Gradient bound = BoundGradient(p, in, reference, due, forward, Strict());
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(bound.dk.At(0, 0, j, 0) == 0, j == 2);
    EXPECT_EQ(bound.dv.At(0, 0, j, 1) == 0, j == 2);
    EXPECT_LT(bound.dk.At(0, 0, j, 1), 1e-4);
    EXPECT_LT(bound.dv.At(0, 0, j, 0), 1e-4);
  }
  EXPECT_LT(*std::max_element(bound.dq.values.begin(), bound.dq.values.end()), 1e-4);
}

// Row 0 sees a sink alone, and what is NaN is hidden from it by a mask.
TEST(GradientBoundEdgesTest, OfARowThatSeesNothingIsOpenWherePoisonIsNotPromisedSafe) {
  Problem p;
  p.q_len = p.kv_len = 2;
  p.mask = BitPlane{{1, 1, 2, 2}, 4, {0, 0, 0, 1}};
  p.sinks = {0};
  p.want_gradients = true;
  Inputs in{
      Array(p.QShape(), 1), Array(p.KShape(), 1), Array(p.VShape(), 1), {}, Array(p.OutShape(), 1)};
  in.v.At(0, 0, 0, 0) = std::numeric_limits<double>::quiet_NaN();
  const Reference reference = ComputeReference(p, in, {});
  const auto bound_under = [&](const Contract& contract) {
    ErrorBound forward(p, in, reference, contract);
    const Gradient due = ComputeGradient(p, in, reference, contract.semantics);
    return BoundGradient(p, in, reference, due, forward, contract);
  };
  Contract contract = Strict();
  EXPECT_EQ(bound_under(contract).dq.At(0, 0, 0, 0), 0);
  contract.poison_safe.erase({PoisonTensor::kV, PoisonPlace::kMask});
  const Gradient open = bound_under(contract);
  EXPECT_TRUE(std::isinf(open.dq.At(0, 0, 0, 0)));
  EXPECT_TRUE(std::isinf(open.dsink.At(0, 0, 0, 0)));
}

// A kernel may scale dS, which is tiny here, before it multiplies a large q by it.
TEST(GradientBoundEdgesTest, LeavesRoomForAScaledScoreGradientThatUnderflows) {
  Problem p;
  p.kv_len = 2;
  p.scale = 0.001;
  p.want_gradients = true;
  Inputs in{
      Array(p.QShape(), 1024), Array(p.KShape()), Array(p.VShape()), {}, Array(p.OutShape(), 1)};
  in.k.values = {40, -42};
  in.v.values = {0, 1};
  const Reference reference = ComputeReference(p, in, {});
  ErrorBound forward(p, in, reference, Strict());
  const Gradient due = ComputeGradient(p, in, reference, Strict().semantics);
  const Gradient bound = BoundGradient(p, in, reference, due, forward, Strict());
  const auto dscore = static_cast<float>(due.dk.At(0, 0, 1, 0) / (0.001 * 1024));
  const float scaled = dscore * 0.001F;
  EXPECT_LE(std::abs(static_cast<double>(scaled * 1024) - due.dk.At(0, 0, 1, 0)),
            bound.dk.At(0, 0, 1, 0));
  EXPECT_GE(bound.dk.At(0, 0, 1, 0), 0x1p-149 * 1024);
  EXPECT_LT(bound.dk.At(0, 0, 1, 0), std::abs(due.dk.At(0, 0, 1, 0)));
}

TEST(GradientBoundEdgesTest, OfASharedBiasIsZeroWhereEveryPairIsHidden) {
  Problem p;
  p.q_heads = p.kv_heads = 2;
  p.q_len = p.kv_len = 3;
  p.key_lengths = {2};
  p.bias = BitPlane{{1, 1, 3, 3}, 4, {1, 1, 1, 0, 1, 1, 1, 1, 1}};
  p.sinks = {0.5, -0.5};
  p.want_gradients = true;
  Inputs in{Array(p.QShape(), 1), Array(p.KShape(), 1), Array(p.VShape(), 1),
            Array(p.bias->shape, 0.25), Array(p.OutShape(), 1)};
  in.bias.At(0, 0, 1, 0) = -std::numeric_limits<double>::infinity();
  const Reference reference = ComputeReference(p, in, {});
  ErrorBound forward(p, in, reference, Strict());
  const Gradient due = ComputeGradient(p, in, reference, Strict().semantics);
  const Gradient bound = BoundGradient(p, in, reference, due, forward, Strict());
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j) {
      const bool is_hidden = j == 2 || (i == 1 && j == 0);
      EXPECT_EQ(bound.dbias.At(0, 0, i, j) == 0, is_hidden) << i << " " << j;
      EXPECT_LT(bound.dbias.At(0, 0, i, j), 1e-4);
    }
  EXPECT_LT(bound.dsink.At(0, 1, 0, 0), 1e-4);
}

TEST(GradientBoundEdgesTest, ClaimsNothingWhereAScoreMayOverflow) {
  Problem p;
  p.kv_len = 2;
  p.bias = BitPlane{{1, 1, 1, 2}, 4, {1, 1}};
  p.sinks = {0};
  p.want_gradients = true;
  Inputs in{Array(p.QShape(), 1e30), Array(p.KShape(), 1e30), Array(p.VShape(), 1),
            Array(p.bias->shape, 0), Array(p.OutShape(), 1)};
  const Reference reference = ComputeReference(p, in, {});
  ErrorBound forward(p, in, reference, Strict());
  const Gradient due = ComputeGradient(p, in, reference, Strict().semantics);
  const Gradient bound = BoundGradient(p, in, reference, due, forward, Strict());
  const double kInf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(bound.dq.values, Each(kInf));
  EXPECT_THAT(bound.dk.values, Each(kInf));
  EXPECT_THAT(bound.dv.values, Each(kInf));
  EXPECT_THAT(bound.dbias.values, Each(kInf));
  EXPECT_THAT(bound.dsink.values, Each(kInf));
}

}  // namespace
}  // namespace attest
