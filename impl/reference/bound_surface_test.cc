// The bound over the whole surface of attention: no correct kernel leaves it, a kernel that leaves out
// a feature does.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "impl/reference/bound.h"
#include "impl/reference/extended_reference.h"
#include "impl/reference/float_kernel.h"
#include "impl/reference/plain_precision.h"
#include "impl/reference/testing.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr const char* kExtraNames[] = {
    "Softcap",       "Alibi",     "Sinks",     "Dropout", "QueryLengths",
    "PrefixLengths", "Documents", "BlockMask", "BiasF32", "Fp8"};

Contract StrictContract() {
  return *ParseContract(R"({"contract": "attest-1"})");
}

bool Within(double got, double want, double bound) {
  return got == want || std::abs(got - want) <= bound;
}

class SurfaceTest : public testing::TestWithParam<Extra> {
 protected:
  SurfaceTest() : random_(1234 + static_cast<uint64_t>(GetParam())) {}

  // One in four with whatever else there is.
  Problem Draw(int round) {
    Problem p = round % 4 == 0 ? random_.DrawSurface() : random_.Draw();
    random_.Add(GetParam(), p);
    p.want_weights = round % 2 == 0;
    if (round % 3) p.want_scores = static_cast<ScoreMode>(random_.Below(4));
    return p;
  }

  RandomProblems random_;
};

// Every output of the float kernel against W. Returns how many elements were held to a finite bound.
int64_t CheckFloatKernel(const Problem& p, const Inputs& in, const FloatVariant& variant,
                         ErrorBound& bound, const Reference& reference) {
  int64_t checked = 0;
  const auto see = [&](const char* output, double got, double want, double allowed) {
    checked += std::isfinite(allowed);
    ASSERT_TRUE(Within(got, want, allowed))
        << output << ": " << got << " for " << want << " +- " << allowed;
  };
  ForEachRow(p, [&](const Row& row) {
    const FloatRow got = RunFloatRow(p, in, row, variant);
    const RowNumbers& worst = bound.WorstOf(row);
    const auto at = [&](const Array& array, size_t lane) {
      return array.At(row.batch, row.head, row.query, static_cast<int64_t>(lane));
    };
    for (size_t d = 0; d < worst.out.size(); ++d) {
      see("out", got.out[d], at(reference.out, d), worst.out[d]);
    }
    see("lse", got.lse, at(reference.lse, 0), worst.lse);
    for (size_t j = 0; j < worst.weights.size(); ++j) {
      see("weights", got.weights[j], at(reference.weights, j), worst.weights[j]);
    }
    for (size_t j = 0; j < worst.scores.size(); ++j) {
      see("scores", got.scores[j], at(reference.asked_scores, j), worst.scores[j]);
    }
  });
  return checked;
}

TEST_P(SurfaceTest, NoCorrectFloatKernelExceedsW) {
  Contract contract = StrictContract();
  int64_t checked = 0;
  for (int round = 0; round < 1000; ++round) {
    const Problem p = Draw(round);
    const Inputs in = random_.Fill(p, std::pow(10.0, static_cast<double>(round % 5) - 2));
    contract.semantics.softcap_order = static_cast<SoftcapOrder>(round / 2 % 2);
    const Reference reference = ReferenceFor(p, in, contract);
    ErrorBound bound(p, in, reference, contract);
    for (FloatVariant variant : kFloatVariants) {
      variant.order = contract.semantics.softcap_order;
      checked += CheckFloatKernel(p, in, variant, bound, reference);
      ASSERT_FALSE(HasFatalFailure()) << "round " << round;
    }
  }
  EXPECT_GT(checked, 200000);
}

TEST_P(SurfaceTest, ThePlainComputationOfEveryTypeIsWithinW) {
  int64_t checked = 0;
  for (int round = 0; round < 2000; ++round) {
    Problem p = Draw(round);
    p.dtype = std::vector{DType::kF32, DType::kF64, DType::kF16, DType::kBF16}[round % 4];
    if (p.dtype == DType::kF64 || p.dtype == DType::kF32) p.bias_dtype.reset();
    const Inputs in = random_.Fill(p, std::pow(10.0, static_cast<double>(round % 5) - 3));
    Contract contract = StrictContract();
    contract.semantics.softcap_order = static_cast<SoftcapOrder>(round / 4 % 2);
    NumericsProfile& profile = contract.numerics[p.dtype];
    if (round % 7 == 1) profile.scores = DType::kBF16;
    if (round % 7 == 2) profile.scale_placement = ScalePlacement::kStorage;
    if (round % 7 == 3) profile.accumulate = DType::kF16;
    const Reference reference = ReferenceFor(p, in, contract);
    const Array plain = ComputePlainPrecision(p, in, profile, contract.semantics.softcap_order);
    ErrorBound bound(p, in, reference, contract);
    const BoundArrays worst = ArraysOf(p, bound, &ErrorBound::WorstOf);
    for (size_t i = 0; i < plain.values.size(); ++i) {
      checked += std::isfinite(worst.out.values[i]) ? 1 : 0;
      ASSERT_TRUE(Within(plain.values[i], reference.out.values[i], worst.out.values[i]))
          << "round " << round << ", " << Name(p.dtype) << ": " << plain.values[i] << " for "
          << reference.out.values[i] << " +- " << worst.out.values[i];
    }
  }
  EXPECT_GT(checked, 20000);
}

INSTANTIATE_TEST_SUITE_P(Extras, SurfaceTest, testing::ValuesIn(kExtras), [](const auto& test) {
  return std::string(kExtraNames[static_cast<size_t>(test.param)]);
});

// How many rows show that a kernel computed `other` where `p` was due.
int RowsSeen(const Problem& p, const Inputs& in, const Problem& other, FloatVariant variant = {}) {
  const Contract contract = StrictContract();
  const Reference reference = ReferenceFor(p, in, contract);
  ErrorBound bound(p, in, reference, contract);
  int seen = 0;
  ForEachRow(p, [&](const Row& row) {
    const FloatRow got = RunFloatRow(other, in, row, variant);
    bool differs = false;
    for (size_t d = 0; d < got.out.size(); ++d) {
      const double want = reference.out.At(row.batch, row.head, row.query, static_cast<int64_t>(d));
      differs = differs || !Within(got.out[d], want, bound.WorstOf(row).out[d]);
    }
    seen += differs;
  });
  return seen;
}

// 64 rows of normal data, each of which sees 40 keys.
struct Ordinary {
  Problem p;
  Inputs in;
  RandomProblems random{17};

  Ordinary() {
    p.q_heads = 2;
    p.q_len = 32;
    p.kv_len = 40;
    p.head_dim = 16;
    p.value_dim = 4;
    in = random.Fill(p, 2);
  }
};

TEST(BoundSurfaceTest, EveryFeatureThatIsLeftOutIsSeen) {
  for (const Extra extra : {Extra::kSoftcap, Extra::kAlibi, Extra::kSinks, Extra::kDropout,
                            Extra::kDocuments, Extra::kBlockMask}) {
    Ordinary plain;
    Problem with = plain.p;
    plain.random.Add(extra, with);
    if (extra == Extra::kSoftcap) with.softcap = 50;
    if (extra == Extra::kSinks) with.sinks = {2, 3};
    if (extra == Extra::kDropout) with.dropout->probability = 0.1;
    EXPECT_GE(RowsSeen(with, plain.in, plain.p), 60) << kExtraNames[static_cast<size_t>(extra)];
    EXPECT_EQ(RowsSeen(with, plain.in, with), 0) << kExtraNames[static_cast<size_t>(extra)];
  }
}

TEST(BoundSurfaceTest, TheOrderOfSoftcapAndBiasIsSeen) {
  Ordinary plain;
  plain.p.softcap = 5;
  plain.p.bias = BitPlane{{1, 1, 1, 40}, 4, std::vector<uint8_t>(40, 1)};
  plain.in = plain.random.Fill(plain.p, 2);
  FloatVariant other;
  other.order = SoftcapOrder::kAfterBias;
  EXPECT_EQ(RowsSeen(plain.p, plain.in, plain.p), 0);
  EXPECT_GE(RowsSeen(plain.p, plain.in, plain.p, other), 60);
}

TEST(BoundSurfaceTest, ARowWithOnlyASinkIsJudgedByIt) {
  Problem p;
  p.kv_len = 3;
  p.key_lengths = {0};
  p.sinks = {2.5};
  p.want_weights = true;
  RandomProblems random(5);
  const Inputs in = random.Fill(p, 1);
  const Contract contract = StrictContract();
  const Reference reference = ReferenceFor(p, in, contract);
  ErrorBound bound(p, in, reference, contract);
  EXPECT_EQ(bound.StateOf({}), RowState::kInformative);
  const RowNumbers& worst = bound.WorstOf({});
  EXPECT_LT(worst.out[0], 1e-30);
  EXPECT_GT(worst.lse, 1e-7);
  EXPECT_LT(worst.lse, 1e-5);
  EXPECT_EQ(worst.weights, (std::vector<double>{0, 0, 0}));
}

// The widest range of a column over all that the row's weights multiply, or the largest where all are
// the same.
double RangeOfValues(const Problem& p, const Inputs& in, const Row& row) {
  double range = 0, largest = 0;
  for (int64_t d = 0; d < p.value_dim; ++d) {
    std::vector<double> values;
    if (p.sinks) values.push_back(0);
    for (const int64_t j : VisibleKeys(p, row)) {
      double v = in.v.At(row.batch, row.head / p.heads_per_kv_head(), j, d);
      if (p.dropout) {
        const bool is_kept = p.dropout->keep.At(row.batch, row.head, row.query, j);
        v *= is_kept ? 1 / (1 - p.dropout->probability) : 0;
      }
      values.push_back(v);
      largest = std::max(largest, std::abs(v));
    }
    if (values.empty()) continue;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    range = std::max(range, *high - *low);
  }
  return range > 0 ? range : largest;
}

TEST(BoundSurfaceTest, ARowIsInformativeWhereWIsWithinATenthOfTheRangeOfItsValues) {
  RandomProblems random(23);
  const Contract contract = StrictContract();
  int informative = 0, uninformative = 0;
  for (int round = 0; round < 1500; ++round) {
    Problem p = random.DrawSurface();
    p.dtype = round % 2 ? DType::kF16 : DType::kBF16;
    const Inputs in = random.Fill(p, std::pow(10.0, static_cast<double>(round % 5) - 1));
    const Reference reference = ReferenceFor(p, in, contract);
    ErrorBound bound(p, in, reference, contract);
    ForEachRow(p, [&](const Row& row) {
      const RowState state = bound.StateOf(row);
      if (state == RowState::kUnconstrained || IsEmptyRow(p, row)) return;
      const std::vector<double>& out = bound.WorstOf(row).out;
      const double worst = out.empty() ? 0 : *std::max_element(out.begin(), out.end());
      const double range = RangeOfValues(p, in, row);
      const bool expected = range == 0 || worst <= 0.1 * range;
      ASSERT_EQ(state == RowState::kInformative, expected)
          << "round " << round << ": " << worst << " of " << range;
      ++(expected ? informative : uninformative);
    });
  }
  EXPECT_GT(informative, 5000);
  EXPECT_GT(uninformative, 500);
}

// Documents and tiles that hide are promises like any other.
TEST(BoundSurfaceTest, PoisonBehindDocumentsAndTilesIsSafeWherePromised) {
  Problem p;
  p.kv_len = 2;
  RandomProblems random(5);
  Inputs in = random.Fill(p, 1);
  in.v.values[1] = std::nan("");
  Contract contract = StrictContract();
  const auto state = [&](const Problem& problem) {
    const Reference reference = ReferenceFor(problem, in, contract);
    return ErrorBound(problem, in, reference, contract).StateOf({});
  };
  Problem documents = p, tiles = p;
  documents.documents = Documents{{0}, {0, 1}};
  tiles.block_mask = BlockMask{1, 1, {{1, 1, 1, 2}, 4, {1, 0}}};
  for (const PoisonPlace place : {PoisonPlace::kDocument, PoisonPlace::kBlock}) {
    const bool is_document = place == PoisonPlace::kDocument;
    contract.poison_safe = {{PoisonTensor::kV, place}};
    EXPECT_EQ(state(documents), is_document ? RowState::kInformative : RowState::kUnconstrained);
    EXPECT_EQ(state(tiles), is_document ? RowState::kUnconstrained : RowState::kInformative);
  }
}

TEST(BoundSurfaceTest, AWeightThatIsDroppedOnANanPromisesNothing) {
  Problem p;
  p.kv_len = 2;
  p.dropout = Dropout{0.5, {{1, 1, 1, 2}, 4, {1, 0}}};
  RandomProblems random(5);
  Inputs in = random.Fill(p, 1);
  in.v.values[1] = std::nan("");
  const Contract contract = StrictContract();
  const Reference reference = ReferenceFor(p, in, contract);
  EXPECT_TRUE(ErrorBound(p, in, reference, contract).IsUnconstrained({}));
}

// One visible key of score `visible`, one hidden of score `hidden`.
bool IsUnconstrainedWith(MaskingValue filler, double visible, double hidden,
                         DType accumulate = DType::kF32) {
  Problem p;
  p.kv_len = 2;
  p.scale = 1;
  p.key_lengths = {1};
  Inputs in{Array(p.QShape(), 1), Array(p.KShape()), Array(p.VShape(), 1), {}};
  in.k.values = {visible, hidden};
  Contract contract = StrictContract();
  contract.masking_value = filler;
  contract.numerics[p.dtype].accumulate = accumulate;
  const Reference reference = ReferenceFor(p, in, contract);
  return ErrorBound(p, in, reference, contract).IsUnconstrained({});
}

// exp of an f32 is 0 some 104 below the maximum, of an f16 some 17.
TEST(BoundSurfaceTest, AFillerThatMightOutweighAVisibleScorePromisesNothing) {
  EXPECT_FALSE(IsUnconstrainedWith({-1e4, false}, 0, 5e4));
  EXPECT_FALSE(IsUnconstrainedWith({-1e4, false}, -9890, 0));
  EXPECT_TRUE(IsUnconstrainedWith({-1e4, false}, -9900, 0));
  EXPECT_TRUE(IsUnconstrainedWith({-1e4, false}, -5e4, 0));
  EXPECT_FALSE(IsUnconstrainedWith({-1e4, true}, 0, 9890));
  EXPECT_TRUE(IsUnconstrainedWith({-1e4, true}, 0, 9900));
  EXPECT_TRUE(IsUnconstrainedWith({-100, false}, 0, 0));
  EXPECT_FALSE(IsUnconstrainedWith({-100, false}, 0, 0, DType::kF16));
}

// A tile of hidden keys alone has weights of one until a visible key comes.
TEST(BoundSurfaceTest, WithAFillerTheValuesOfHiddenKeysMayOverflow) {
  Problem p;
  p.kv_len = 3;
  p.key_lengths = {1};
  Inputs in{Array(p.QShape(), 1), Array(p.KShape(), 1), Array(p.VShape()), {}};
  in.v.values = {1, 1.5e38, 1.5e38};
  Contract contract = StrictContract();
  const Reference reference = ReferenceFor(p, in, contract);
  EXPECT_FALSE(ErrorBound(p, in, reference, contract).IsUnconstrained({}));
  contract.masking_value = MaskingValue{-1e30, false};
  EXPECT_TRUE(ErrorBound(p, in, reference, contract).IsUnconstrained({}));
}

struct ScoresCase {
  Problem p;
  Inputs in;
  Contract contract = StrictContract();

  explicit ScoresCase(ScoreMode mode) {
    p.kv_len = 3;
    p.scale = 1;
    p.key_lengths = {2};
    p.want_scores = mode;
    in = {Array(p.QShape(), 1), Array(p.KShape()), Array(p.VShape(), 1), {}};
    in.k.values = {1, 2, 3};
  }
  std::vector<double> Bounds() const {
    const Reference reference = ReferenceFor(p, in, contract);
    return ErrorBound(p, in, reference, contract).WorstOf({}).scores;
  }
};

TEST(BoundSurfaceTest, AskedScoresAreHeldWhereTheyMeanSomething) {
  for (const ScoreMode mode : {ScoreMode::kRaw, ScoreMode::kCapped}) {
    ScoresCase raw(mode);
    for (const double bound : raw.Bounds()) EXPECT_TRUE(bound > 0 && bound < 1e-5);
    raw.in.k.values[2] = std::nan("");
    EXPECT_EQ(raw.Bounds()[2], kInf) << "hidden, and not a number";
    raw.p.key_lengths = {0};
    EXPECT_LT(raw.Bounds()[0], 1e-5) << "the scores of an empty row are scores";
    raw.p.key_lengths = {3};
    EXPECT_LT(raw.Bounds()[0], 1e-5) << "and those beside a NaN";
  }
  ScoresCase biased(ScoreMode::kBiased);
  EXPECT_GT(biased.Bounds()[1], 0);
  EXPECT_EQ(biased.Bounds()[2], 0) << "-inf is due";
  biased.contract.masking_value = MaskingValue{-1e9, false};
  EXPECT_EQ(biased.Bounds()[2], kInf);
  ScoresCase weights(ScoreMode::kWeights);
  EXPECT_TRUE(weights.Bounds()[1] > 0 && weights.Bounds()[1] < 1e-4);
  EXPECT_EQ(weights.Bounds()[2], 0);
}

TEST(BoundSurfaceTest, AScoreBeyondItsTypePromisesNothing) {
  ScoresCase raw(ScoreMode::kRaw);
  raw.p.dtype = DType::kF16;
  raw.in.q.values = {256};
  raw.in.k.values = {1, 300, 0};
  EXPECT_LT(raw.Bounds()[0], 1);
  EXPECT_EQ(raw.Bounds()[1], kInf);
}

// A kernel may skip a weight that is dropped, or multiply it by 0, which keeps a NaN.
TEST(BoundSurfaceTest, ANanWeightThatIsDroppedPromisesNothing) {
  Problem p;
  p.kv_len = 2;
  p.dropout = Dropout{0.5, BitPlane{{1, 1, 1, 2}, 4, {0, 0}}};
  Inputs in{Array(p.QShape(), 1), Array(p.KShape(), 1), Array(p.VShape(), 1), {}};
  in.k.values[1] = std::numeric_limits<double>::quiet_NaN();
  const Contract contract = StrictContract();
  const Reference reference = ReferenceFor(p, in, contract);
  EXPECT_TRUE(ErrorBound(p, in, reference, contract).IsUnconstrained({0, 0, 0}));
  p.dropout.reset();
  const Reference whole = ReferenceFor(p, in, contract);
  EXPECT_FALSE(ErrorBound(p, in, whole, contract).IsUnconstrained({0, 0, 0})) << "NaN is due";
}

// The product overflows f32 before the scale brings it back; nothing keeps a hidden key's from it.
TEST(BoundSurfaceTest, AHiddenScoreThatOverflowsOnItsWayPromisesNothing) {
  ScoresCase raw(ScoreMode::kRaw);
  raw.in.q.values = {1e20};
  raw.in.k.values = {1, 1, 1e19};
  raw.p.scale = 0x1p-30;
  EXPECT_LT(raw.Bounds()[0], kInf);
  EXPECT_EQ(raw.Bounds()[2], kInf);
}

}  // namespace
}  // namespace attest
