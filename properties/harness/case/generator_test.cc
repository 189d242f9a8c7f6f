#include "properties/harness/case/generator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

// Of packed sequences every rule but top-left goes by the item's own lengths.
bool PackedDiagonalOffered(const Contract& c, const Problem& p) {
  const bool is_zero = p.diagonal_offset.empty();
  if (is_zero || c.causal_offset.count(CausalOffset::kExplicit) != 0) return true;
  for (size_t b = 0; b < p.diagonal_offset.size(); ++b) {
    if (p.diagonal_offset[b] != (*p.key_lengths)[b] - (*p.query_lengths)[b]) return false;
  }
  return true;
}

bool VisibilityOffered(const Contract& c, const Case& drawn) {
  const Problem& p = drawn.problem;
  if (p.mask && p.bias && !c.Has(Feature::kMaskWithBias)) return false;
  if (p.mask && (!c.Has(Feature::kMask) || !PlaneOffered(c, p, *p.mask))) return false;
  if (p.bias && (!c.Has(Feature::kBias) || !PlaneOffered(c, p, *p.bias))) return false;
  if (p.causal && !c.Has(Feature::kCausal)) return false;
  if (p.window.active() && !c.Has(Feature::kWindow)) return false;
  if (!LooksAtDiagonal(p)) return p.diagonal_offset.empty();
  if (drawn.storage.packed) return PackedDiagonalOffered(c, p);
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

bool KeysPerQueryOffered(const Contract& c, const Problem& p) {
  if (!c.Excludes(Exclusion::kFewerKeysThanQueries)) return true;
  for (size_t b = 0; b < static_cast<size_t>(p.batch); ++b) {
    const int64_t queries = p.query_lengths ? (*p.query_lengths)[b] : p.q_len;
    if ((p.key_lengths ? (*p.key_lengths)[b] : p.kv_len) < queries) return false;
  }
  return true;
}

bool ScaleOffered(const Contract& c, const Problem& p) {
  return !p.scale || c.OffersScale(*p.scale);
}

bool LengthsOffered(const Contract& c, const Case& drawn) {
  const Problem& p = drawn.problem;
  if (drawn.storage.packed) return true;  // both lengths are what packing means
  return (!p.key_lengths || c.Has(Feature::kKeyLengths)) &&
         (!p.query_lengths || c.Has(Feature::kQueryLengths));
}

bool ExtrasOffered(const Contract& c, const Problem& p) {
  return (!p.prefix_lengths || c.Has(Feature::kPrefixLengths)) &&
         (!p.documents || c.Has(Feature::kDocuments)) &&
         (!p.block_mask || c.Has(Feature::kBlockMask)) &&
         (p.softcap == 0 || c.Has(Feature::kSoftcap)) &&
         (!p.alibi_slopes || c.Has(Feature::kAlibi)) && (!p.sinks || c.Has(Feature::kSinks)) &&
         (!p.dropout || c.Has(Feature::kDropout)) && (!p.bias_dtype || c.Has(Feature::kBiasF32)) &&
         (!p.fp8 || c.fp8.count(p.fp8->format) != 0) &&
         (!p.want_scores || c.scores.count(*p.want_scores) != 0);
}

bool StorageOffered(const Contract& c, const Case& drawn) {
  const Storage& s = drawn.storage;
  const bool has_new_keys = c.Has(Feature::kZeroSizes) || s.past < drawn.problem.kv_len;
  return (s.past == 0 || (c.Has(Feature::kPast) && has_new_keys)) &&
         (s.first_call != FirstCall::kPastAbsent || c.Has(Feature::kPresent)) &&
         (s.first_call != FirstCall::kPastEmpty || c.Has(Feature::kPast)) &&
         (s.page_size == 0 || c.Has(Feature::kPages)) && (!s.ring || c.Has(Feature::kRing)) &&
         (!s.packed || c.Has(Feature::kPacked));
}

bool Offered(const Contract& contract, const Case& c) {
  const Problem& p = c.problem;
  return contract.dtypes.count(p.dtype) != 0 && SizesOffered(contract, p) &&
         VisibilityOffered(contract, c) && LengthsOffered(contract, c) &&
         KeysPerQueryOffered(contract, p) && ScaleOffered(contract, p) &&
         ExtrasOffered(contract, p) && StorageOffered(contract, c) &&
         OffersLayouts(contract, c.layouts) && (!p.want_lse || contract.lse != LseKind::kNone) &&
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

bool HasExtra(const Case& c) {
  const Problem& p = c.problem;
  return p.query_lengths || p.prefix_lengths || p.documents || p.block_mask || p.softcap > 0 ||
         p.alibi_slopes || p.sinks || p.dropout || p.fp8 || c.storage != Storage{};
}

// What few kernels have must not crowd out what all have.
TEST(GeneratorTest, HalfOfTheCasesHaveNoneOfTheRarerFeatures) {
  int extras = 0, common = 0, pairs = 0;
  constexpr int kCases = 8000;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const Case c = DrawCase(seed, 50, EverythingContract());
    const Problem& p = c.problem;
    const int flags = (p.causal && !p.prefix_lengths) + p.window.active() + p.mask.has_value() +
                      p.bias.has_value() + (p.key_lengths && !c.storage.packed);
    extras += HasExtra(c);
    common += flags > 0;
    pairs += flags > 0 && HasExtra(c);
  }
  EXPECT_NEAR(extras, kCases / 2, 250);
  EXPECT_GT(common, kCases * 3 / 4);
  EXPECT_GT(pairs, kCases / 3);
}

TEST(GeneratorTest, WithAPastOnnxsRuleStandsTheFirstRowBehindIt) {
  Contract contract = OnnxLikeContract();
  contract.features.insert(Feature::kPast);
  int behind = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const Case c = DrawCase(seed, 50, contract);
    const Problem& p = c.problem;
    const bool is_drawn_for_it = c.layouts == Layouts{} && !p.window.active();
    if (c.storage.past == 0 || !p.causal || p.key_lengths || !is_drawn_for_it) continue;
    if (p.DiagonalOffset(0) == c.storage.past) ++behind;
  }
  EXPECT_GT(behind, 100);
}

TEST(GeneratorTest, APastComesWithAndWithoutAPresentAndOftenWithOneQuery) {
  Contract contract = BareContract();
  contract.features = {Feature::kPast};
  int past = 0, without = 0, decoding = 0;
  const auto draw = [&] {
    past = without = decoding = 0;
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      const Case c = DrawCase(seed, 50, contract);
      if (c.storage.past == 0) continue;
      ++past;
      without += c.storage.without_present;
      decoding += c.problem.q_len == 1;
    }
  };
  draw();
  EXPECT_GT(decoding, past * 3 / 10);
  EXPECT_LT(without, past / 10);  // of the twentieth that asks for anything
  contract.features.insert(Feature::kPresent);
  draw();
  EXPECT_NEAR(without, past / 2, past / 10);
}

TEST(GeneratorTest, AKernelOfOneStorageIsGivenThatAlone) {
  Contract contract = BareContract();
  contract.features = {Feature::kPacked};
  int packed = 0, empty_items = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Case c = DrawCase(seed, 50, contract);
    if (!c.storage.packed || c.problem.batch == 0) continue;
    ++packed;
    EXPECT_EQ(c.layouts, Layouts{});
    EXPECT_EQ(std::ranges::max(*c.problem.query_lengths), c.problem.q_len);
    EXPECT_EQ(std::ranges::max(*c.problem.key_lengths), c.problem.kv_len);
    empty_items += std::ranges::count(*c.problem.query_lengths, 0) > 0;
  }
  EXPECT_GT(packed, 500);
  EXPECT_GT(empty_items, 100);
}

// Slopes as the papers' code has them, from all problems with so many heads that have them.
TEST(GeneratorTest, HalfOfTheSlopesAreThePublishedOnes) {
  const std::map<int64_t, std::vector<double>> published = {
      {1, {0x1p-8}},
      {2, {0x1p-4, 0x1p-8}},
      {3, {0x1p-4, 0x1p-8, 0x1p-2}},
      {4, {0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8}},
      {6, {0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3}},
      {12,
       {0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8, 0.70710677, 0.35355338,
        0.17677669, 0.088388346}}};
  std::map<int64_t, std::pair<int, int>> seen;  // with slopes, with published ones
  for (uint64_t seed = 0; seed < 40000; ++seed) {
    const Problem p = DrawCase(seed, 50, EverythingContract()).problem;
    const auto expected = published.find(p.q_heads);
    if (!p.alibi_slopes || expected == published.end()) continue;
    auto& [all, as_published] = seen[p.q_heads];
    ++all;
    for (size_t h = 0; h < p.alibi_slopes->size(); ++h) {
      if (std::fabs((*p.alibi_slopes)[h] / expected->second[h] - 1) > 1e-6) break;
      if (h + 1 == p.alibi_slopes->size()) ++as_published;
    }
  }
  for (const int64_t heads : {1, 2, 3, 4, 6}) {
    EXPECT_GT(seen[heads].first, 30) << heads;
    EXPECT_NEAR(seen[heads].second, seen[heads].first / 2.0, seen[heads].first / 4.0) << heads;
  }
  EXPECT_GT(seen[12].second, 0);
}

TEST(GeneratorTest, TheEdgesOfTheRarerFeaturesAreReached) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    const Case c = DrawCase(seed, 50, EverythingContract());
    const Problem& p = c.problem;
    const auto see = [&](bool reached, const char* what) {
      if (reached) seen.insert(what);
    };
    if (p.kv_len == 0 || p.q_len == 0 || p.batch == 0 || p.q_heads == 0) continue;
    see(p.query_lengths && std::ranges::count(*p.query_lengths, 0) > 0, "no row of an item");
    see(p.prefix_lengths && p.prefix_lengths->front() == p.kv_len, "prefix of all keys");
    see(p.prefix_lengths && p.prefix_lengths->front() == 0, "prefix of no key");
    see(p.block_mask && p.block_mask->block_k > p.kv_len, "tile beyond the keys");
    see(p.dropout && std::ranges::count(p.dropout->keep.bits, 0) == 0, "nothing dropped");
    see(p.dropout && p.dropout->probability == 0, "dropout of probability 0");
    see(p.softcap > 30000, "softcap above every score");
    see(p.sinks && p.sinks->front() > 1e5, "sink above every score");
    see(p.sinks && p.sinks->front() < -1e5, "sink below every score");
    see(c.storage.past == p.kv_len, "no new key");
    see(c.storage.page_size > p.kv_len, "page larger than the sequence");
    see(p.bias_dtype.has_value(), "bias of f32");
    see(c.layouts.k == Layout::kSharedHead && p.kv_heads > 1, "shared heads");
    see(p.want_scores && c.storage.page_size > 0, "scores from pages");
    if (!p.documents) continue;
    const auto& keys = p.documents->key;
    const bool returns = std::ranges::is_sorted(keys.begin(), keys.begin() + p.kv_len) == false;
    see(returns, "a document that returns");
    see(std::ranges::find(keys, p.documents->query.back()) == keys.end(), "a query without keys");
  }
  EXPECT_EQ(seen.size(), 16u) << ::testing::PrintToString(seen);
}

constexpr int64_t kNever = int64_t{1} << 60;  // one case in so many

// Kernels choose other tiles, splits and paths at the sizes of models; a search that never gets
// there passes whatever is wrong with those.
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

// A fault of the last tile of 64 keys, in a path for 64 queries or more and one option, needs many.
TEST(GeneratorTest, TheEdgesOfTilesComeUpOftenAndStayCheap) {
  constexpr int kCases = 8000;
  GeneratorOptions options;
  options.ordinary_per_model = options.seams_per_model = kNever;  // nothing but seams
  int whole_tiles = 0, with_part = 0, nothing_hidden = 0, one_more = 0;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const Case c = DrawCase(seed, 50, EverythingContract(), options);
    const Problem& p = c.problem;
    whole_tiles += p.q_len >= 64;
    with_part += p.q_len >= 64 && p.kv_len % 64 != 0;
    one_more += p.kv_len > 64 && p.kv_len % 64 == 1;
    nothing_hidden += !p.mask && !p.bias && !p.causal && !p.window.active() && !p.key_lengths;
    EXPECT_LE(p.q_len * p.kv_len, 20000) << "seed " << seed;
    EXPECT_LE(Work(p), 400000) << "seed " << seed;
  }
  EXPECT_GT(whole_tiles, kCases / 4);
  EXPECT_GT(with_part, kCases / 5);
  EXPECT_GT(one_more, kCases / 20);
  EXPECT_GT(nothing_hidden, kCases / 4);
}

TEST(GeneratorTest, OrdinaryCasesStayWithinTheBudgetAndTheMeanFarBelow) {
  int64_t total = 0, ordinary = 0, long_cases = 0;
  GeneratorOptions options;
  options.ordinary_per_model = kNever;  // nor a seam of tiles
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
