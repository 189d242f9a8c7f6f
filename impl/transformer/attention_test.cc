// The ways of computing attention agree, cost what they should, and kernels of the house compute
// the same.
#include "impl/transformer/attention.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "impl/mutants/plain.h"
#include "impl/reference/plugin/reference_kernel.h"
#include "impl/tiled/tiled.h"
#include "impl/transformer/kernel_attention.h"
#include "impl/transformer/testing.h"

namespace attest::transformer {

// A double that counts multiply-adds.
struct Counted {
  double value = 0;
  static inline int64_t multiply_adds = 0;

  Counted() = default;
  explicit Counted(double v) : value(v) {}
  explicit Counted(int v) : value(v) {}
  friend Counted operator+(Counted a, Counted b) { return Counted(a.value + b.value); }
  friend Counted operator-(Counted a, Counted b) { return Counted(a.value - b.value); }
  friend Counted operator*(Counted a, Counted b) { return Counted(a.value * b.value); }
  friend Counted operator/(Counted a, Counted b) { return Counted(a.value / b.value); }
  friend bool operator<(Counted a, Counted b) { return a.value < b.value; }
  friend Counted exp(Counted a) { return Counted(std::exp(a.value)); }
};

inline Counted MultiplyAdd(const Counted& a, const Counted& b, const Counted& sum) {
  ++Counted::multiply_adds;
  return Counted(a.value * b.value + sum.value);
}

}  // namespace attest::transformer

namespace Eigen {
template <>
struct NumTraits<attest::transformer::Counted> : NumTraits<double> {};
}  // namespace Eigen

namespace attest::transformer {
namespace {

// Causal self-attention of every item over `len` tokens, with its memory.
template <typename T>
struct Example {
  Matrix<T> q, k, v;
  AttentionTask<T> task;

  Example(int64_t batch, int64_t len, int64_t heads = 4, int64_t kv_heads = 2, int64_t n = 4)
      : q(Random(1, batch * len, heads * n)),
        k(Random(2, batch * len, kv_heads * n)),
        v(Random(3, batch * len, kv_heads * n)) {
    task.batch = batch;
    task.q_len = task.kv.len = task.kv.item_rows = len;
    task.kv.rows = batch * len;
    task.heads = heads;
    task.kv_heads = kv_heads;
    task.head_dim = n;
    task.q = &q;
    task.kv.k = k.data();
    task.kv.v = v.data();
    task.scale = 0.5;
    const auto items = static_cast<size_t>(batch);
    task.visible.causal = true;
    task.visible.key_begin.assign(items, 0);
    task.visible.key_end.assign(items, len);
    task.visible.offset.assign(items, 0);
    task.visible.q_len = task.visible.kv_len = len;
  }

  static Matrix<T> Random(uint64_t seed, int64_t rows, int64_t cols) {
    return RandomMatrix(seed, rows, cols, 2).unaryExpr([](double x) { return T(x); });
  }
};

// Scores are below 2 * 2 * 4 * 0.5 = 8, so that a weight is known to 8 ulp and a few roundings of
// exp, and a sum of 21 of them to as many roundings again: below 100 * 2^-52 * 2 in all.
constexpr double kRoundings = 100 * 0x1p-51;

void ExpectNear(const Matrix<double>& a, const Matrix<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_LE((a - b).cwiseAbs().maxCoeff(), kRoundings);
}

TEST(AttentionTest, OnlineEqualsDenseForAnyTile) {
  Example<double> e(2, 21);
  e.task.visible.key_begin = {0, 3};
  e.task.visible.window = 6;
  Matrix<double> dense, online;
  DenseAttention(e.task, dense);
  for (const int64_t tile : {1, 2, 5, 64}) {
    OnlineAttention(e.task, online, tile);
    ExpectNear(dense, online);
  }
  EXPECT_EQ(dense.row(21), Matrix<double>::Zero(1, 16)) << "a row that sees no key";
}

TEST(AttentionTest, KernelsOfTheHouseAgree) {
  Example<double> e(2, 21);
  e.task.visible.key_begin = {0, 3};
  e.task.slopes = {0.5, 0.25, 0.125, 0.0625};
  e.task.alibi_offset = {0, 0};
  Matrix<double> plain, out;
  OnlineAttention(e.task, plain);
  const std::vector<
      std::pair<const attest_kernel_table*, std::vector<std::pair<std::string, std::string>>>>
      kernels = {{TiledKernelTable(), {}},
                 {TiledKernelTable(), {{"tile", "3"}}},
                 {TiledKernelTable(), {{"variant", "fast"}}},
                 {ReferenceKernelTable(), {}},
                 {MutantKernelTable(), {}}};
  for (const auto& [table, options] : kernels) {
    const auto kernel = KernelAttention::Create(table, options);
    ASSERT_TRUE(kernel) << kernel.error();
    const auto done = kernel->Run(e.task, out);
    ASSERT_TRUE(done) << done.error();
    SCOPED_TRACE(table->name);
    ExpectNear(plain, out);
  }
}

TEST(AttentionTest, WhatAKernelSaysComesThrough) {
  EXPECT_EQ(KernelAttention::Create(TiledKernelTable(), {{"tile", "none"}}).has_value(), false);
  Example<double> e(1, 2);
  e.task.scale = std::numeric_limits<double>::quiet_NaN();
  e.task.kv_heads = 3;  // does not divide heads
  Matrix<double> out;
  const auto done = KernelAttention::Create(TiledKernelTable())->Run(e.task, out);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().find("tiled: "), std::string::npos) << done.error();
}

int64_t Cost(void (*attention)(const AttentionTask<Counted>&, Matrix<Counted>&), int64_t batch,
             int64_t len) {
  Example<Counted> e(batch, len);
  Matrix<Counted> out;
  Counted::multiply_adds = 0;
  attention(e.task, out);
  return Counted::multiply_adds;
}

// head_dim multiply-adds for a score and as many for its value, for every pair: quadratic in
// length, linear in batch, and for the tiled form the visible half of it.
TEST(AttentionTest, CostIsCounted) {
  constexpr int64_t kOfPair = 2 * 4, kHeads = 4;
  const auto dense = [](const AttentionTask<Counted>& task, Matrix<Counted>& out) {
    DenseAttention(task, out);
  };
  const auto tiled = [](const AttentionTask<Counted>& task, Matrix<Counted>& out) {
    OnlineAttention(task, out, 4);
  };
  for (const int64_t len : {1, 7, 14, 28}) {
    EXPECT_EQ(Cost(dense, 1, len), kHeads * len * len * kOfPair) << len;
    EXPECT_EQ(Cost(dense, 3, len), 3 * Cost(dense, 1, len)) << len;
    EXPECT_EQ(Cost(tiled, 1, len), kHeads * len * (len + 1) / 2 * kOfPair) << len;
    EXPECT_EQ(Cost(tiled, 3, len), 3 * Cost(tiled, 1, len)) << len;
  }
}

}  // namespace
}  // namespace attest::transformer
