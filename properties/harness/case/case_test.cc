#include "properties/harness/case/case.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/storage.h"

namespace attest {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

Case Sample(DType dtype = DType::kF32) {
  Case c;
  Problem& p = c.problem;
  p.batch = 2;
  p.q_heads = 4;
  p.kv_heads = 2;
  p.q_len = 3;
  p.kv_len = 9;
  p.head_dim = 4;
  p.value_dim = 5;
  p.dtype = dtype;
  p.bias = BitPlane{{2, 1, 3, 9}, 4, std::vector<uint8_t>(54, 1)};
  p.bias->bits[7] = 0;
  c.recipe.seed = 42;
  return c;
}

template <typename Visit>
void ForEachRecipe(Visit&& visit) {
  for (int s = 0; s < kScoreFamilyCount; ++s) {
    for (int v = 0; v < kValueFamilyCount; ++v) {
      visit(Recipe{static_cast<ScoreFamily>(s), static_cast<ValueFamily>(v),
                   static_cast<BiasFamily>(v % kBiasFamilyCount), 42});
    }
  }
}

// The largest and least score of a row, without bias.
std::pair<double, double> ScoreRange(const Case& c, const Inputs& in, int64_t b, int64_t h,
                                     int64_t i) {
  const int64_t kv_head = h / c.problem.heads_per_kv_head();
  double least = kInf, most = -kInf;
  for (int64_t j = 0; j < c.problem.kv_len; ++j) {
    double dot = 0;
    for (int64_t d = 0; d < c.problem.head_dim; ++d) {
      dot += in.q.At(b, h, i, d) * in.k.At(b, kv_head, j, d);
    }
    least = std::min(least, dot * c.problem.EffectiveScale());
    most = std::max(most, dot * c.problem.EffectiveScale());
  }
  return {least, most};
}

TEST(CaseTest, EveryNameParsesBack) {
  for (int n = 0; n < kScoreFamilyCount; ++n) {
    const auto family = static_cast<ScoreFamily>(n);
    EXPECT_EQ(ParseScoreFamily(Name(family)), family);
  }
  for (int n = 0; n < kValueFamilyCount; ++n) {
    const auto family = static_cast<ValueFamily>(n);
    EXPECT_EQ(ParseValueFamily(Name(family)), family);
  }
  for (int n = 0; n < kBiasFamilyCount; ++n) {
    const auto family = static_cast<BiasFamily>(n);
    EXPECT_EQ(ParseBiasFamily(Name(family)), family);
  }
  for (int n = 0; n < kLayoutCount; ++n) {
    const auto layout = static_cast<Layout>(n);
    EXPECT_EQ(ParseLayout(Name(layout)), layout);
  }
  for (int n = 0; n < 4; ++n) {
    const auto mode = static_cast<ScoreMode>(n);
    EXPECT_EQ(ParseScoreMode(Name(mode)), mode);
  }
  EXPECT_FALSE(ParseScoreFamily("normall"));
}

TEST(CaseTest, EveryElementIsFiniteAndAValueOfItsType) {
  for (const DType dtype : kFloats) {
    for (const double scale : {1.0, 0.3, -2.0, 0.0, 1e-30, 1e30}) {
      ForEachRecipe([&](const Recipe& recipe) {
        Case c = Sample(dtype);
        c.problem.scale = scale;
        c.recipe = recipe;
        ASSERT_EQ(Validate(c), std::nullopt);
        const Inputs in = Materialise(c);
        for (const Array* array : {&in.q, &in.k, &in.v}) {
          for (const double x : array->values) {
            ASSERT_TRUE(std::isfinite(x)) << Name(recipe.scores) << " " << Name(dtype) << scale;
            ASSERT_EQ(RoundTo(dtype, x), x);
          }
        }
      });
    }
  }
}

// If this fails, the same case file now means other data: bump kRecipeVersion, then these.
TEST(CaseTest, RecipesMeanWhatTheyAlwaysMeant) {
  const uint64_t kGolden[] = {0xce761be31ff4a3bd, 0xef309d2b01de8a47, 0x3d42c7142a12d959,
                              0xb0154c2519d1e7b1};
  for (size_t n = 0; n < 4; ++n) {
    uint64_t hash = 0;
    ForEachRecipe([&](const Recipe& recipe) {
      Case c = Sample(kFloats[n]);
      c.recipe = recipe;
      hash = MixIn(hash, HashInputs(Materialise(c)));
    });
    EXPECT_EQ(hash, kGolden[n]) << Name(kFloats[n]) << std::hex << " 0x" << hash;
  }
}

TEST(CaseTest, TheHashSeesEveryElementAndTheSignOfZero) {
  const Inputs in = Materialise(Sample());
  for (Array Inputs::*tensor : {&Inputs::q, &Inputs::k, &Inputs::v, &Inputs::bias}) {
    Inputs other = in;
    (other.*tensor).values.back() += 1;
    EXPECT_NE(HashInputs(other), HashInputs(in));
  }
  Inputs negative = in;
  ASSERT_EQ(negative.q.values[0], 0);
  negative.q.values[0] = -0.0;
  EXPECT_NE(HashInputs(negative), HashInputs(in));
}

TEST(CaseTest, VeryNegativeScoresLieBelowEverySentinelInEveryType) {
  for (const DType dtype : kFloats) {
    Case c = Sample(dtype);
    c.recipe.scores = ScoreFamily::kVeryNegative;
    const Inputs in = Materialise(c);
    for (int64_t i = 0; i < 3; ++i) {
      const auto [least, most] = ScoreRange(c, in, 1, 3, i);
      EXPECT_LE(most, -5.99e4) << Name(dtype);
      EXPECT_GE(least, dtype == DType::kF16 ? -65504 : -7.05e4) << Name(dtype);
    }
  }
}

TEST(CaseTest, AscendingAndDescendingScoresAreMonotone) {
  for (const auto family : {ScoreFamily::kAscending, ScoreFamily::kDescending}) {
    Case c = Sample();
    c.recipe.scores = family;
    const Inputs in = Materialise(c);
    const double sign = family == ScoreFamily::kAscending ? 1 : -1;
    for (int64_t j = 1; j < 9; ++j) {
      EXPECT_GT(sign * in.k.At(0, 0, j, 0), sign * in.k.At(0, 0, j - 1, 0));
    }
    EXPECT_GT(in.q.At(0, 0, 0, 0), 0);
  }
}

TEST(CaseTest, HugeScoresReach1e37InSomeRowsOnly) {
  Case c = Sample();
  c.problem.q_len = 60;
  c.problem.bias.reset();
  c.recipe.scores = ScoreFamily::kHuge;
  const Inputs in = Materialise(c);
  int huge = 0;
  for (int64_t i = 0; i < 60; ++i) {
    const auto [least, most] = ScoreRange(c, in, 0, 0, i);
    const double reach = std::max(-least, most);
    if (reach > 1e30) ++huge;
    EXPECT_TRUE(std::fabs(reach - 5e4) < 1 || (reach > 1e37 && reach < 1e38)) << reach;
  }
  EXPECT_GT(huge, 8);
  EXPECT_LT(huge, 35);
}

TEST(CaseTest, NormalDataHaveMeanZeroAndVarianceOne) {
  Case c;
  c.problem.kv_len = 200;
  c.problem.value_dim = 100;
  c.recipe.values = ValueFamily::kNormal;
  const Inputs in = Materialise(c);
  double sum = 0, squares = 0;
  for (const double x : in.v.values) {
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(in.v.values.size());
  EXPECT_NEAR(sum / n, 0, 0.03);  // 4 standard errors of 20,000 draws
  EXPECT_NEAR(squares / n, 1, 0.03);
}

TEST(CaseTest, CuttingSizesKeepsTheValuesOfWhatRemains) {
  ForEachRecipe([](const Recipe& recipe) {
    Case big = Sample();
    big.problem.scale = 0.5;
    big.recipe = recipe;
    Case small = big;
    small.problem.batch = 1;
    small.problem.q_heads = small.problem.kv_heads = 1;
    small.problem.q_len = 2;
    small.problem.kv_len = 4;
    small.problem.head_dim = 2;
    small.problem.value_dim = recipe.values == ValueFamily::kOneHot ? 5 : 3;
    small.problem.bias = BitPlane{{1, 1, 2, 4}, 4, std::vector<uint8_t>(8, 1)};
    const Inputs from = Materialise(big), to = Materialise(small);
    for (Array Inputs::*tensor : {&Inputs::q, &Inputs::k, &Inputs::v, &Inputs::bias}) {
      const Array& a = from.*tensor;
      const Array& b = to.*tensor;
      for (int64_t i = 0; i < b.shape[2]; ++i)
        for (int64_t d = 0; d < b.shape[3]; ++d)
          ASSERT_TRUE(SameValue(a.At(0, 0, i, d), b.At(0, 0, i, d))) << Name(recipe.scores);
    }
  });
}

TEST(CaseTest, BatchItemsAndHeadsDiffer) {
  Case c = Sample();
  c.recipe.scores = ScoreFamily::kNormal;
  const Inputs in = Materialise(c);
  EXPECT_NE(in.k.At(0, 0, 0, 0), in.k.At(1, 0, 0, 0));
  EXPECT_NE(in.k.At(0, 0, 0, 0), in.k.At(0, 1, 0, 0));
  EXPECT_NE(in.q.At(0, 0, 0, 0), in.q.At(0, 1, 0, 0));
}

TEST(CaseTest, OneHotValuesReadOffTheWeights) {
  Case c = Sample();
  c.recipe.values = ValueFamily::kOneHot;
  const Inputs in = Materialise(c);
  for (int64_t j = 0; j < 9; ++j)
    for (int64_t d = 0; d < 5; ++d) EXPECT_EQ(in.v.At(1, 1, j, d), j % 5 == d ? 1 : 0);
}

TEST(CaseTest, HiddenBiasIsMinusInfinityAndOverridesComeLast) {
  Case c = Sample();
  c.overrides.push_back({DataTensor::kV, {1, 0, 8, 4}, 0.1});
  c.overrides.push_back({DataTensor::kV, {1, 0, 8, 4}, 0.2});
  ASSERT_EQ(Validate(c), std::nullopt);
  const Inputs in = Materialise(c);
  EXPECT_EQ(in.bias.values[7], -kInf);
  EXPECT_EQ(in.bias.values[8], 0);
  EXPECT_EQ(in.v.At(1, 0, 8, 4), RoundTo(DType::kF32, 0.2));
}

TEST(CaseTest, EverySizeMayBeZero) {
  for (int64_t Problem::*size : {&Problem::batch, &Problem::q_len, &Problem::kv_len,
                                 &Problem::head_dim, &Problem::value_dim}) {
    ForEachRecipe([&](const Recipe& recipe) {
      Case c = Sample();
      c.problem.bias.reset();
      c.problem.*size = 0;
      c.recipe = recipe;
      ASSERT_EQ(Validate(c), std::nullopt);
      const Inputs in = Materialise(c);
      EXPECT_EQ(in.q.shape, c.problem.QShape());
      EXPECT_EQ(static_cast<int64_t>(in.v.values.size()), ElementCount(c.problem.VShape()));
    });
  }
}

// Every element a value of 8 bits times its scale, and finite: what overflows is the largest.
TEST(CaseTest, EightBitDataAreExactMultiplesOfTheirScale) {
  for (const DType format : {DType::kE4M3, DType::kE5M2}) {
    ForEachRecipe([&](const Recipe& recipe) {
      Case c = Sample(DType::kF16);
      c.problem.fp8 = Fp8{format, 0x1.99999ap-4, 2, 0.5};
      c.recipe = recipe;
      ASSERT_EQ(Validate(c), std::nullopt);
      const Inputs in = Materialise(c);
      const auto check = [&](const Array& array, double scale) {
        for (const double x : array.values) {
          ASSERT_TRUE(std::isfinite(x)) << Name(recipe.scores);
          ASSERT_EQ(RoundTo(format, x / scale) * scale, x) << Name(recipe.scores);
        }
      };
      check(in.q, 0x1.99999ap-4);
      check(in.k, 2);
      check(in.v, 0.5);
    });
  }
}

TEST(CaseTest, EightBitNumbersRoundSaturateAndKeepWhatIsNotFinite) {
  Problem p;
  p.fp8 = Fp8{DType::kE4M3, 1, 2, 1};
  EXPECT_EQ(RoundedFor(p, DataTensor::kQ, 1e9), 448);
  EXPECT_EQ(RoundedFor(p, DataTensor::kK, -1e9), -896);
  EXPECT_EQ(RoundedFor(p, DataTensor::kK, 2.3), 2.25);
  EXPECT_TRUE(std::isnan(RoundedFor(p, DataTensor::kV, kInf)));  // e4m3 has no infinity
  p.fp8->format = DType::kE5M2;
  EXPECT_EQ(RoundedFor(p, DataTensor::kV, kInf), kInf);
  EXPECT_EQ(RoundedFor(p, DataTensor::kBias, 0.1), RoundTo(DType::kF32, 0.1));
}

TEST(CaseTest, ABiasMayBeOfAWiderType) {
  Case c = Sample(DType::kF16);
  c.recipe.bias = BiasFamily::kNormal;
  const Inputs narrow = Materialise(c);
  c.problem.bias_dtype = DType::kF32;
  ASSERT_EQ(Validate(c), std::nullopt);
  const Inputs wide = Materialise(c);
  EXPECT_NE(narrow.bias.values, wide.bias.values);
  for (size_t n = 0; n < wide.bias.values.size(); ++n) {
    EXPECT_EQ(RoundTo(DType::kF32, wide.bias.values[n]), wide.bias.values[n]);
    EXPECT_NEAR(narrow.bias.values[n], wide.bias.values[n], 0x1p-10) << n;
    if (n == 5) n = 7;  // element 7 is hidden
  }
  EXPECT_EQ(narrow.q, wide.q);
}

TEST(CaseTest, HeadsThatShareMemoryHoldWhatTheFirstHolds) {
  Case c = Sample();
  c.recipe.scores = ScoreFamily::kNormal;
  c.recipe.values = ValueFamily::kLabels;
  const Inputs apart = Materialise(c);
  c.layouts.k = c.layouts.v = Layout::kSharedHead;
  ASSERT_EQ(Validate(c), std::nullopt);
  const Inputs shared = Materialise(c);
  for (int64_t h = 0; h < 2; ++h) {
    EXPECT_EQ(shared.k.At(1, h, 4, 2), apart.k.At(1, 0, 4, 2));
    EXPECT_EQ(shared.v.At(1, h, 4, 2), 10);
  }
  EXPECT_EQ(shared.q, apart.q);
}

void ExpectInvalid(const Case& c, const char* says) {
  const auto error = Validate(c);
  ASSERT_TRUE(error) << says;
  EXPECT_THAT(*error, HasSubstr(says));
  EXPECT_EQ(error->find('\n'), std::string::npos);
}

TEST(CaseTest, ValidateNamesWhatIsWrongWithAnOverride) {
  const auto with = [](Override o) {
    Case c = Sample(DType::kF16);
    c.overrides.push_back(o);
    return c;
  };
  EXPECT_EQ(Validate(with({DataTensor::kK, {1, 1, 8, 3}, std::nan("")})), std::nullopt);
  EXPECT_EQ(Validate(with({DataTensor::kK, {1, 1, 8, 3}, kInf})), std::nullopt);
  ExpectInvalid(with({DataTensor::kK, {1, 2, 0, 0}, 0}), "index 1 of k is 2");
  ExpectInvalid(with({DataTensor::kK, {-1, 0, 0, 0}, 0}), "index 0 of k is -1");
  ExpectInvalid(with({DataTensor::kV, {0, 0, 0, 0}, 1e9}), "overflows f16");
  ExpectInvalid(with({DataTensor::kBias, {0, 0, 0, 0}, -kInf}), "visibility");
  ExpectInvalid(with({DataTensor::kBias, {0, 0, 0, 7}, 1}), "hidden");
  Case none = with({DataTensor::kBias, {0, 0, 0, 0}, 1});
  none.problem.bias.reset();
  ExpectInvalid(none, "no bias");
}

TEST(CaseTest, ValidateNamesWhatIsWrongWithALiteral) {
  Case c = Sample();
  c.literals[DataTensor::kBias] = Materialise(c).bias;
  EXPECT_EQ(Validate(c), std::nullopt);
  c.literals[DataTensor::kBias].values[7] = 0;
  ExpectInvalid(c, "literals.bias: element 7");
  c.literals[DataTensor::kBias].values[7] = -kInf;
  c.literals[DataTensor::kBias].values[0] = -kInf;
  ExpectInvalid(c, "literals.bias: element 0");
  c.problem.bias.reset();
  ExpectInvalid(c, "no bias");
  Case q = Sample();
  q.literals[DataTensor::kQ] = Array(q.problem.QShape(), 0.1);
  ExpectInvalid(q, "no f32 value");
  q.literals[DataTensor::kQ] = Array({2, 4, 3, 3});
  ExpectInvalid(q, "shape must be [2, 4, 3, 4]");
}

TEST(CaseTest, ValidateNamesWhatHeadsThatShareMemoryRuleOut) {
  Case c = Sample();
  c.layouts.q = Layout::kSharedHead;
  ExpectInvalid(c, "layout.q = shared_head is for k and v only");
  Case set = Sample();
  set.layouts.k = Layout::kSharedHead;
  set.overrides.push_back({DataTensor::kK, {0, 0, 0, 0}, 1});
  ExpectInvalid(set, "layout.k = shared_head");
  Case literal = Sample();
  literal.layouts.v = Layout::kSharedHead;
  literal.literals[DataTensor::kV] = Materialise(literal).v;
  EXPECT_EQ(Validate(literal), std::nullopt);
  literal.literals[DataTensor::kV].At(1, 1, 0, 0) += 1;
  ExpectInvalid(literal, "literals.v: the heads differ");
}

TEST(CaseTest, ValidateNamesWhatIsWrongWithStorage) {
  Case c = Sample();
  c.storage.past = 10;
  ExpectInvalid(c, "storage.past = 10 is outside 0..kv_len = 9");
  c.storage.past = 9;
  EXPECT_EQ(Validate(c), std::nullopt);
  c.storage.ring = true;
  ExpectInvalid(c, "one of past, first_call, page_size, ring and packed");
  c.storage.ring = false;
  c.storage.first_call = FirstCall::kPastEmpty;
  ExpectInvalid(c, "one of past, first_call, page_size, ring and packed");
  c.storage.past = 0;
  EXPECT_EQ(Validate(c), std::nullopt);
  c.storage = Storage{};
  c.storage.without_present = true;
  ExpectInvalid(c, "storage.without_present needs a past");
  c.storage = Storage{0, 5000};
  ExpectInvalid(c, "storage.page_size = 5000");
  c.storage = Storage{0, 0, false, true};
  ExpectInvalid(c, "needs query_lengths and key_lengths");
  c.problem.query_lengths = {3, 0};
  c.problem.key_lengths = {9, 1};
  ExpectInvalid(c, "does not go with a bias");
  c.problem.bias.reset();
  EXPECT_EQ(Validate(c), std::nullopt);
  c.problem.want_scores = ScoreMode::kRaw;
  ExpectInvalid(c, "does not go with scores");
}

TEST(CaseTest, MendingKeepsTheDataAndDropsWhatCannotStand) {
  Case c = Sample();
  c.recipe.scores = ScoreFamily::kNormal;
  c.layouts.k = c.layouts.v = Layout::kSharedHead;
  c.storage.packed = true;
  const Inputs before = Materialise(c);
  c.overrides.push_back({DataTensor::kK, {0, 1, 2, 3}, 5});
  MendStorage(c);
  EXPECT_EQ(Validate(c), std::nullopt);
  EXPECT_EQ(c.storage, Storage{});
  EXPECT_EQ(c.layouts.v, Layout::kSharedHead);
  Inputs after = Materialise(c);
  EXPECT_EQ(after.k.At(0, 1, 2, 3), 5);
  after.k.At(0, 1, 2, 3) = before.k.At(0, 1, 2, 3);
  EXPECT_EQ(after.k, before.k);
  EXPECT_EQ(after.v, before.v);
  c.storage.past = 20;
  c.storage.without_present = true;
  MendStorage(c);
  EXPECT_EQ(c.storage.past, 9);
  EXPECT_TRUE(c.storage.without_present);
  c.storage.past = 0;
  MendStorage(c);
  EXPECT_EQ(c.storage, Storage{});
}

TEST(CaseTest, ValidateKnowsTheRangeOfEightBits) {
  Case c = Sample();
  c.problem.fp8 = Fp8{DType::kE4M3, 1, 2, 1};
  c.literals[DataTensor::kK] = Array(c.problem.KShape(), 2.25);
  EXPECT_EQ(Validate(c), std::nullopt);
  c.literals[DataTensor::kK].values[3] = 2.3;
  ExpectInvalid(c, "literals.k: 2.3 is no e4m3 value times its scale; the nearest is 2.25");
  c.literals.clear();
  c.overrides.push_back({DataTensor::kK, {0, 0, 0, 0}, 900});
  EXPECT_EQ(Validate(c), std::nullopt);  // rounds to 2 * 448
  c.overrides.back().value = 1000;
  ExpectInvalid(c, "set: 1000 overflows e4m3");
}

TEST(CaseTest, ValidateIncludesTheProblemAndTheEnumerators) {
  Case c = Sample();
  c.problem.kv_heads = 3;
  ExpectInvalid(c, "kv_heads");
  Case family = Sample();
  family.recipe.scores = static_cast<ScoreFamily>(kScoreFamilyCount);
  ExpectInvalid(family, "scores");
  Case layout = Sample();
  layout.layouts.out = static_cast<Layout>(kLayoutCount);
  ExpectInvalid(layout, "layout");
}

}  // namespace
}  // namespace attest
