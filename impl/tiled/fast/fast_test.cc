#include "impl/tiled/fast/fast.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/promises.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/tiled/fast/block_kernel.h"
#include "impl/tiled/fast/fast_call.h"
#include "impl/tiled/tiled.h"

namespace attest {
namespace {

using tiled_fast::kChunk;
using tiled_fast::kTile;

DirectKernel Fast(int threads = 1) {
  auto kernel = DirectKernel::Create(TiledKernelTable(), {{"variant", "fast"}}, threads);
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

// Without what goes to the readable kernel.
Problem FastProblem(std::mt19937_64& random, DType dtype, bool with_features) {
  Problem p = RandomProblem(random, dtype);
  if (with_features) AddRandomFeatures(random, p);
  p.want_weights = false;
  p.want_scores.reset();
  p.dropout.reset();
  return p;
}

Problem Sized(int64_t heads, int64_t q_len, int64_t kv_len, int64_t head_dim, int64_t value_dim) {
  Problem p;
  p.q_heads = heads;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.head_dim = head_dim;
  p.value_dim = value_dim;
  p.want_lse = true;
  return p;
}

// The instructions of one of Highway's targets, for as long as it lives.
class OnlyTarget {
 public:
  explicit OnlyTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
  }
  ~OnlyTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
};

// Each test with the instructions that the parameter names, where the machine has them.
class FastTargetTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0 && GetParam() != HWY_STATIC_TARGET) {
      GTEST_SKIP() << "this machine has no " << hwy::TargetName(GetParam());
    }
    only_.emplace(GetParam());
  }

 private:
  std::optional<OnlyTarget> only_;
};

TEST_P(FastTargetTest, EveryFeatureStaysWithinTheWorstCaseBound) {
  const DirectKernel kernel = Fast();
  std::mt19937_64 random(21);
  for (int round = 0; round < 240; ++round) {
    const DType dtype = std::array{DType::kF32, DType::kF16, DType::kBF16}[round % 3];
    const Problem p = FastProblem(random, dtype, round % 2 == 0);
    Inputs inputs = RandomInputs(random, p);
    if (round % 4 > 1) PoisonHidden(p, inputs);
    ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << "round " << round;
  }
}

TEST_P(FastTargetTest, EveryRemainderOfTheMicroKernelMatchesTheReference) {
  const DirectKernel kernel = Fast();
  std::mt19937_64 random(22);
  for (int64_t n = 1; n <= 18; ++n) {
    for (const auto& [rows, keys] : {std::pair{n, 19 - n}, {n + 8, n}, {67, 2 * n}}) {
      const Problem p = Sized(1, rows, keys, n, 19 - n);
      const Inputs inputs = RandomInputs(random, p);
      ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << rows << " " << n;
    }
  }
}

TEST_P(FastTargetTest, SeveralPanelsTilesAndChunksMatchTheReference) {
  const DirectKernel kernel = Fast();
  std::mt19937_64 random(23);
  for (const bool causal : {false, true}) {
    for (const int64_t rows : {int64_t{3}, int64_t{150}}) {
      Problem p = Sized(2, rows, kChunk + kTile + 5, 5, 7);
      p.causal = causal;
      p.diagonal_offset = {p.kv_len - rows};
      if (rows == 150) p.window.left = 200;
      const Inputs inputs = RandomInputs(random, p);
      ASSERT_TRUE(MatchesReference(p, inputs, kernel.Run(p, inputs))) << causal << " " << rows;
    }
  }
}

// Alone a row goes another way than among many, and 16 bits another than 32.
void ExpectSameBitsAlone(const Problem& p, uint64_t seed) {
  const DirectKernel kernel = Fast();
  std::mt19937_64 random(seed);
  const Inputs inputs = RandomInputs(random, p);
  const DirectResult all = kernel.Run(p, inputs);
  ASSERT_TRUE(MatchesReference(p, inputs, all));
  for (int64_t i = 0; i < p.q_len; i += 7) {
    Problem one = p;
    one.q_len = 1;
    one.diagonal_offset = {p.diagonal_offset[0] + i};
    Inputs own = inputs;
    own.q = Array(one.QShape());
    for (int64_t c = 0; c < p.head_dim; ++c) own.q.At(0, 0, 0, c) = inputs.q.At(0, 0, i, c);
    const DirectResult alone = kernel.Run(one, own);
    ASSERT_EQ(alone.lse.At(0, 0, 0, 0), all.lse.At(0, 0, i, 0)) << "row " << i;
    for (int64_t c = 0; c < p.value_dim; ++c) {
      ASSERT_EQ(alone.out.At(0, 0, 0, c), all.out.At(0, 0, i, c)) << "row " << i << " lane " << c;
    }
  }
}

TEST_P(FastTargetTest, ARowHasTheSameBitsAloneAndAmongOthers) {
  Problem p = Sized(1, 90, kChunk + 60, 20, 33);
  p.causal = true;
  p.softcap = 3;
  p.sinks = {{0.5}};
  p.diagonal_offset = {kChunk - 30};
  ExpectSameBitsAlone(p, 24);
}

TEST_P(FastTargetTest, EveryDTypeHasTheSameBitsAloneAndAmongOthers) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    // The widest vectors hold 32 of 45 components of 16 bits; then come eight, and five alone.
    Problem p = Sized(1, 20, kTile + 21, 45, 48);
    p.dtype = dtype;
    p.causal = true;
    p.diagonal_offset = {kTile + 10};  // the first rows miss some keys, the last none
    SCOPED_TRACE(Name(dtype));
    ExpectSameBitsAlone(p, 30);
  }
}

// Rows that lie evenly are written as soon as they are complete, but where a panel spans heads.
TEST_P(FastTargetTest, PanelsThatSpanHeadsMatchTheReference) {
  std::mt19937_64 random(31);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t keys : {kTile + 9, kChunk + 9}) {
      Problem p = Sized(4, 30, keys, 24, 48);
      p.kv_heads = 2;
      p.dtype = dtype;
      p.causal = true;
      p.diagonal_offset = {keys - 25};
      const Inputs inputs = RandomInputs(random, p);
      ASSERT_TRUE(MatchesReference(p, inputs, Fast().Run(p, inputs))) << Name(dtype) << keys;
    }
  }
}

TEST_P(FastTargetTest, EveryStorageGivesTheSameBits) {
  const DirectKernel kernel = Fast();
  std::mt19937_64 random(25);
  for (int round = 0; round < 60; ++round) {
    const DType dtype = round % 2 == 0 ? DType::kF32 : DType::kBF16;
    const Problem p = FastProblem(random, dtype, true);
    ASSERT_TRUE(KeepsBitsInEveryStorage(kernel, p, RandomInputs(random, p))) << "round " << round;
  }
}

TEST_P(FastTargetTest, RowsOf16BitsAreConvertedAsTheReferenceRoundsThem) {
  std::mt19937_64 random(26);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Problem p = Sized(1, 1, 1, 1, 40);
    p.dtype = dtype;
    p.sinks = {{0.0}};  // with a score of 0 halves V, so that what is stored has to be rounded
    Inputs inputs = RandomInputs(random, p);
    inputs.q.values[0] = 0;
    const double tiny = TraitsOf(dtype).min_subnormal;
    for (size_t c = 0; c < 40; ++c) inputs.v.values[c] = static_cast<double>(c) * 3 * tiny;
    const DirectResult result = Fast().Run(p, inputs);
    for (size_t c = 0; c < 40; ++c) {
      const double half = inputs.v.values[c] / 2;
      // What a 16-bit type with the exponents of f32 holds may be flushed there.
      const bool is_flushed = dtype == DType::kBF16 && result.out.values[c] == 0;
      EXPECT_TRUE(is_flushed || result.out.values[c] == RoundTo(dtype, half)) << Name(dtype) << c;
    }
  }
}

// The last of the rows misses the last key, and sees that before it; the others see neither. What the others
// give must not change, wherever both lie in tiles, in pairs and in chunks.
void ExpectNanWhereItIsVisible(const DirectKernel& kernel, const Problem& p, uint64_t seed) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::mt19937_64 random(seed);
  Inputs inputs = RandomInputs(random, p);
  const DirectResult before = kernel.Run(p, inputs);
  const int64_t last = p.kv_len - 1;
  for (int64_t c = 0; c < p.head_dim; ++c) inputs.k.At(0, 0, last, c) = kNaN;
  for (int64_t c = 0; c < p.value_dim; ++c) {
    inputs.v.At(0, 0, last, c) = inputs.v.At(0, 0, last - 1, c) = kNaN;
  }
  const DirectResult after = kernel.Run(p, inputs);
  for (int64_t i = 0; i < p.q_len; ++i) {
    for (int64_t c = 0; c < p.value_dim; ++c) {
      const double out = after.out.At(0, 0, i, c);
      ASSERT_EQ(std::isnan(out), i == p.q_len - 1) << "row " << i;
      if (i < p.q_len - 1) {
        ASSERT_EQ(out, before.out.At(0, 0, i, c));
      }
    }
    ASSERT_EQ(after.lse.At(0, 0, i, 0), before.lse.At(0, 0, i, 0));
  }
}

TEST_P(FastTargetTest, VisibleNanComesThroughAndHiddenNanDoesNot) {
  const DirectKernel kernel = Fast();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t rows : {int64_t{2}, int64_t{70}}) {  // each kernel
      for (const int64_t keys : {int64_t{99}, int64_t{100}, kTile + 2, kChunk + 2, kChunk + 75}) {
        for (const int64_t value_dim : {17, 32}) {
          Problem p = Sized(1, rows, keys, 4, value_dim);
          p.dtype = dtype;
          p.causal = true;
          p.diagonal_offset = {keys - 1 - rows};
          SCOPED_TRACE(testing::Message() << Name(dtype) << " " << rows << " " << keys);
          ASSERT_NO_FATAL_FAILURE(ExpectNanWhereItIsVisible(kernel, p, 27));
        }
      }
    }
  }
}

// All rows see the same keys: so no tile has a hidden key among others, but at its edges.
TEST_P(FastTargetTest, NanBesideWhatARowSeesChangesNoBit) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const DirectKernel kernel = Fast();
  std::mt19937_64 random(32);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int round = 0; round < 40; ++round) {
      Problem p = Sized(1, 1, kTile + 40, 6, round % 2 == 0 ? 16 : 5);
      p.dtype = dtype;
      const int64_t first = round % 5, last = first + 1 + round / 2 * 7;
      p.causal = true;
      p.diagonal_offset = {last - 1};
      p.window.left = last - 1 - first;
      Inputs inputs = RandomInputs(random, p);
      const DirectResult before = kernel.Run(p, inputs);
      for (int64_t n = 0; n < p.kv_len; ++n) {
        if (n >= first && n < last) continue;
        for (int64_t c = 0; c < p.value_dim; ++c) inputs.v.At(0, 0, n, c) = kNaN;
      }
      ASSERT_TRUE(SameBits(before, kernel.Run(p, inputs))) << Name(dtype) << " " << round;
    }
  }
}

TEST_P(FastTargetTest, ThePanelIsAsWideAsTheTarget) {
  const std::map<int64_t, int64_t> rows = {{HWY_SCALAR, 3}, {HWY_EMU128, 12}, {HWY_NEON, 12},
                                           {HWY_SSE4, 8},   {HWY_AVX2, 16},   {HWY_AVX3, 48}};
  EXPECT_EQ(tiled_fast::PanelRows(), rows.at(GetParam()));
}

// The first is what every machine has.
INSTANTIATE_TEST_SUITE_P(Targets, FastTargetTest,
#if HWY_ARCH_X86
                         testing::Values(HWY_STATIC_TARGET, HWY_SSE4, HWY_AVX2, HWY_AVX3),
#else
                         testing::Values(HWY_STATIC_TARGET),
#endif
                         [](const auto& target) { return hwy::TargetName(target.param); });

TEST(FastThreadsTest, EveryThreadCountGivesTheSameBits) {
  std::mt19937_64 random(28);
  // Many blocks; then fewer than threads, which share the keys of few rows, and of many.
  for (const auto& [heads, rows] : {std::pair<int64_t, int64_t>{3, 300}, {1, 1}, {1, 20}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Problem p = Sized(heads, rows, 20 * kChunk + 7, 6, 5);
      p.dtype = dtype;
      const Inputs inputs = RandomInputs(random, p);
      const DirectResult one = Fast().Run(p, inputs);
      for (const int threads : {2, 3, 7}) {
        const DirectKernel kernel = Fast(threads);
        for (int call = 0; call < 2; ++call) ASSERT_TRUE(SameBits(one, kernel.Run(p, inputs)));
      }
    }
  }
}

TEST(FastTest, WhatItDoesNotDoGoesToTheReadableKernel) {
  std::mt19937_64 random(29);
  const auto readable = DirectKernel::Create(TiledKernelTable());
  ASSERT_TRUE(readable) << readable.error();
  for (int round = 0; round < 30; ++round) {
    Problem p = RandomProblem(random, round % 2 == 0 ? DType::kF64 : DType::kF32);
    p.want_weights = round % 2 == 1;
    const Inputs inputs = RandomInputs(random, p);
    ASSERT_TRUE(SameBits(readable->Run(p, inputs), Fast().Run(p, inputs))) << "round " << round;
  }
}

// A body that is done only when so many slots have come.
class Gathering {
 public:
  explicit Gathering(int wanted) : wanted_(wanted) {}
  void Come() {
    ++here_;
    while (here_ < wanted_) std::this_thread::yield();
  }

 private:
  const int wanted_;
  std::atomic<int> here_ = 0;
};

TEST(ThreadPoolTest, SlotsRunAtTheSameTimeAndExceptionsComeOut) {
  tiled_fast::ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> slots = 0;
    Gathering all(3);
    pool.Run(8, [&](int slot) {
      slots += 1 << slot;
      all.Come();
    });
    EXPECT_EQ(slots, 0b111);
  }
  Gathering all(3);
  EXPECT_THROW(pool.Run(3,
                        [&](int slot) {
                          all.Come();
                          if (slot == 2) throw std::runtime_error("slot 2");
                        }),
               std::runtime_error);
  std::atomic<int> inner = 0;
  pool.Run(3, [&](int slot) {  // while a call has the pool another runs on its own thread
    if (slot == 0) pool.Run(3, [&](int own) { inner += 10 + own; });
  });
  EXPECT_EQ(inner, 10);
}

// Short Runs, between which the others sometimes fall asleep: some come late, or not at all.
TEST(ThreadPoolTest, NoSlotRunsTwiceOrOutlastsItsRun) {
  tiled_fast::ThreadPool pool(4);
  for (int round = 0; round < 3000; ++round) {
    if (round % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::array<std::atomic<int>, 4> began{}, ended{};
    pool.Run(2 + round % 3, [&](int slot) {
      ++began[static_cast<size_t>(slot)];
      if (round % 2 == 0) std::this_thread::yield();
      ++ended[static_cast<size_t>(slot)];
    });
    ASSERT_EQ(began[0], 1);
    for (size_t slot = 0; slot < began.size(); ++slot) {
      ASSERT_LE(began[slot], static_cast<int>(slot) < 2 + round % 3 ? 1 : 0);
      ASSERT_EQ(began[slot], ended[slot]);
    }
  }
}

}  // namespace
}  // namespace attest
