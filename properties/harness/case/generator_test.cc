#include "properties/harness/case/generator.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/case/bins.h"
#include "properties/harness/case/equal.h"
#include "properties/harness/case/test_contracts.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

int64_t Work(const Problem& p) {
  return p.batch * p.q_heads * p.q_len * p.kv_len * (p.head_dim + p.value_dim);
}

bool PlaneOffered(const Contract& c, const Problem& p, const BitPlane& plane) {
  return (c.Has(Feature::kMaskBroadcast) || plane.shape == p.WeightsShape()) &&
         (c.Has(Feature::kMaskKeyBroadcast) || plane.shape[3] == p.kv_len) &&
         (c.Has(Feature::kMaskRanks) || plane.rank == 4);
}

bool VisibilityOffered(const Contract& c, const Problem& p) {
  if (p.mask && p.bias && !c.Has(Feature::kMaskWithBias)) return false;
  if (p.mask && (!c.Has(Feature::kMask) || !PlaneOffered(c, p, *p.mask))) return false;
  if (p.bias && (!c.Has(Feature::kBias) || !PlaneOffered(c, p, *p.bias))) return false;
  if (p.key_lengths && !c.Has(Feature::kKeyLengths)) return false;
  if (p.causal && !c.Has(Feature::kCausal)) return false;
  if (p.window.active() && !c.Has(Feature::kWindow)) return false;
  if (!p.causal && !p.window.active()) return p.diagonal_offset.empty();
  // The offsets must be those of some alignment on offer; several may coincide.
  const auto zeros = std::vector<int64_t>(static_cast<size_t>(p.batch), 0);
  return std::ranges::any_of(OfferedAlignments(c, p.key_lengths.has_value()),
                             [&](Alignment alignment) {
                               auto offsets = OffsetsFor(alignment, p);
                               auto actual = p.diagonal_offset;
                               if (offsets.empty()) offsets = zeros;
                               if (actual.empty()) actual = zeros;
                               return alignment == Alignment::kExplicit || offsets == actual;
                             });
}

bool SizesOffered(const Contract& c, const Problem& p) {
  const auto within = [](int64_t size, int64_t limit) { return limit == 0 || size <= limit; };
  const Limits& l = c.limits;
  const bool zero = std::min({p.batch, p.q_heads, p.q_len, p.kv_len, p.head_dim, p.value_dim}) == 0;
  return within(p.batch, l.max_batch) && within(p.q_heads, l.max_heads) &&
         within(p.q_len, l.max_q_len) && within(p.kv_len, l.max_kv_len) &&
         within(p.head_dim, l.max_head_dim) && p.head_dim % l.head_dim_multiple == 0 &&
         (c.Has(Feature::kZeroSizes) || !zero) &&
         (c.Has(Feature::kGqa) || p.q_heads == p.kv_heads) &&
         (c.Has(Feature::kValueDim) || p.head_dim == p.value_dim);
}

bool LayoutsOffered(const Contract& c, const Layouts& l) {
  const auto offered = OfferedLayouts(c);
  return std::ranges::all_of(std::array{l.q, l.k, l.v, l.out}, [&](Layout layout) {
    return std::ranges::find(offered, layout) != offered.end();
  });
}

bool Offered(const Contract& contract, const Case& c) {
  const Problem& p = c.problem;
  return contract.dtypes.count(p.dtype) != 0 && SizesOffered(contract, p) &&
         VisibilityOffered(contract, p) && LayoutsOffered(contract, c.layouts) &&
         (!p.want_lse || contract.lse != LseKind::kNone) &&
         (!p.want_weights || contract.Has(Feature::kWeights));
}

TEST(GeneratorTest, TenThousandDrawsAreValidForEveryContract) {
  for (const Contract& contract : TestContracts()) {
    for (uint64_t seed = 0; seed < 10000; ++seed) {
      const Case c = DrawCase(seed, static_cast<int>(seed % 101), contract);
      const auto error = Validate(c);
      ASSERT_EQ(error, std::nullopt) << contract.name << "\n" << ToToml({c, {}, {}, {}});
    }
  }
}

TEST(GeneratorTest, NineteenInTwentyLieWithinTheContract) {
  for (const Contract& contract : TestContracts()) {
    int outside = 0;
    for (uint64_t seed = 0; seed < 4000; ++seed) {
      if (!Offered(contract, DrawCase(seed, 100, contract))) ++outside;
    }
    EXPECT_LE(outside, 4000 / 20 + 50) << contract.name;
    const bool refuses_something = contract.name != EverythingContract().name;
    EXPECT_EQ(outside > 50, refuses_something) << contract.name << " " << outside;
  }
}

TEST(GeneratorTest, EveryRequiredBinIsReached) {
  for (const Contract& contract : TestContracts()) {
    BinCounts counts;
    for (uint64_t seed = 0; seed < 20000; ++seed) {
      counts.Add(DrawCase(seed, static_cast<int>(seed % 101), contract));
    }
    EXPECT_THAT(counts.Missing(contract), ::testing::IsEmpty()) << contract.name;
  }
}

TEST(GeneratorTest, TheSameArgumentsGiveTheSameCase) {
  const Contract& contract = EverythingContract();
  for (uint64_t seed = 0; seed < 200; ++seed) {
    EXPECT_TRUE(SameCase(DrawCase(seed, 50, contract), DrawCase(seed, 50, contract)));
  }
  EXPECT_FALSE(SameCase(DrawCase(1, 50, contract), DrawCase(2, 50, contract)));
}

constexpr int64_t kNever = int64_t{1} << 60;  // one case in so many

// Kernels choose other tiles, splits and paths at the sizes of models; a search that never gets there
// passes whatever is wrong with those.
TEST(GeneratorTest, TheSizesOfModelsAreReached) {
  int64_t tiles = 0, groups = 0, heads = 0, batches = 0, longs = 0, wides = 0;
  for (uint64_t seed = 0; seed < 16000; ++seed) {  // as many as plan quick draws for a kernel
    const Problem p = DrawCase(seed, 50, EverythingContract()).problem;
    tiles += p.q_len > 64 && p.kv_len > 64 && p.head_dim >= 64;
    groups += p.kv_heads > 0 && p.q_heads / p.kv_heads >= 8;
    heads += p.q_heads > 8;
    batches += p.batch >= 5;
    longs += p.kv_len > 1024;
    wides += p.head_dim >= 128;
    EXPECT_LE(Work(p), 2200000) << "seed " << seed;
  }
  for (const int64_t count : {tiles, groups, heads, batches, longs, wides}) {
    EXPECT_GE(count, 4) << tiles << " " << groups << " " << heads << " " << batches << " " << longs
                        << " " << wides;
  }
}

TEST(GeneratorTest, OrdinaryCasesStayWithinTheBudgetAndTheMeanFarBelow) {
  int64_t total = 0, ordinary = 0, long_cases = 0;
  GeneratorOptions options;
  options.ordinary_per_model = kNever;
  for (uint64_t seed = 0; seed < 10000; ++seed) {
    const Problem p = DrawCase(seed, 100, EverythingContract(), options).problem;
    if (p.kv_len > 40) ++long_cases;
    if (p.kv_len > 40 || std::max(p.head_dim, p.value_dim) > 24) {
      EXPECT_LE(Work(p), 400000);
      continue;
    }
    EXPECT_LE(Work(p), 200000);
    total += Work(p);
    ++ordinary;
  }
  EXPECT_LT(total / ordinary, 40000);
  EXPECT_GT(total / ordinary, 4000);
  EXPECT_NEAR(static_cast<double>(long_cases), 10000 / 32.0, 80);
}

TEST(GeneratorTest, OptionsBoundTheSizes) {
  const GeneratorOptions options{5, 3, 64, kNever};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const Problem p = DrawCase(seed, 100, EverythingContract(), options).problem;
    EXPECT_LE(p.q_len, 5);
    EXPECT_LE(p.kv_len, 64);
    EXPECT_LE(p.head_dim, 64);
  }
}

TEST(GeneratorTest, SmallSizesGiveSmallCases) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const Problem p = DrawCase(seed, 0, EverythingContract()).problem;
    EXPECT_LE(std::max({p.q_len, p.kv_len, p.head_dim, p.value_dim}), 3);
  }
}

}  // namespace
}  // namespace attest
