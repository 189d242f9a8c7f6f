// MultiHeadAttention and GroupQueryAttention through the plug-in. Queries are 0, so that a row is the
// mean of the values it sees, and the values are labels. Skipped where ONNX Runtime is not installed.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "impl/adapters/onnxruntime/group_query.h"
#include "impl/adapters/onnxruntime/testing.h"

namespace attest::ort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Floats = std::vector<float>;

// A [batch, heads, len, dim] tensor that lies in memory as [batch, len, heads, dim]; every lane of a
// row holds its label.
struct Rows {
  int64_t batch, heads, len, dim;
  Floats data;

  Rows(int64_t batches, int64_t head_count, int64_t length, int64_t lanes,
       const Floats& labels = {})
      : batch(batches), heads(head_count), len(length), dim(lanes) {
    for (int64_t n = 0; n < batch * len * heads; ++n) {
      const float label = labels.empty() ? 0 : labels[static_cast<size_t>(n)];
      data.insert(data.end(), static_cast<size_t>(dim), label);
    }
  }
  void AddTo(CallBuilder& call, int32_t role) {
    call.Add(role, kF32, {batch, heads, len, dim}, data.data(),
             {len * heads * dim, dim, heads * dim, 1});
  }
  // The first lane of each row, in the order of memory.
  Floats labels() const {
    Floats firsts;
    for (size_t n = 0; n < data.size(); n += static_cast<size_t>(dim)) firsts.push_back(data[n]);
    return firsts;
  }
};

class MultiHead : public OperatorTest {
 protected:
  MultiHead() : OperatorTest({{"variant", "mha"}}) {}
};

TEST_F(MultiHead, HeadsLieSideBySideAndKeepTheirValues) {
  Rows q(1, 2, 1, 3), k(1, 2, 2, 3), v(1, 2, 2, 1, {1, 10, 3, 30}), out(1, 2, 1, 1);
  CallBuilder call;
  call.Scale(1);
  q.AddTo(call, ATTEST_ROLE_Q);
  k.AddTo(call, ATTEST_ROLE_K);
  v.AddTo(call, ATTEST_ROLE_V);
  out.AddTo(call, ATTEST_ROLE_OUT);
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  EXPECT_THAT(out.data, ElementsAre(2, 20));
}

TEST_F(MultiHead, LengthsCausalityAndBiasHide) {
  Rows q(2, 1, 2, 2), k(2, 1, 2, 2), v(2, 1, 2, 2, {2, 4, 6, 8}), out(2, 1, 2, 2);
  std::array<int64_t, 2> lengths = {2, 1};
  std::array<float, 8> bias{};
  bias[2] = -INFINITY;  // batch 0, row 1, key 0
  CallBuilder call;
  call.Scale(1).Option(ATTEST_OPTION_CAUSAL, 1);
  q.AddTo(call, ATTEST_ROLE_Q);
  k.AddTo(call, ATTEST_ROLE_K);
  v.AddTo(call, ATTEST_ROLE_V);
  out.AddTo(call, ATTEST_ROLE_OUT);
  call.Add(ATTEST_ROLE_KEY_LENGTHS, kI64, {2}, lengths.data());
  call.Add(ATTEST_ROLE_BIAS, kF32, {2, 1, 2, 2}, bias.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  EXPECT_THAT(out.labels(), ElementsAre(2, 4, 6, 6));
}

TEST_F(MultiHead, PastIsTurnedAndComesBackInThePresent) {
  const Instance with_past({{"variant", "mha"}, {"past", "on"}});
  ASSERT_EQ(with_past.status(), ATTEST_OK) << with_past.message();
  Rows q(1, 2, 1, 1), k(1, 2, 1, 1), v(1, 2, 1, 1, {3, 30}), out(1, 2, 1, 1);
  Rows past_k(1, 2, 2, 1), past_v(1, 2, 2, 1, {1, 10, 2, 20});
  std::array<float, 6> present_k{}, present_v{};
  CallBuilder call;
  call.Scale(1);
  q.AddTo(call, ATTEST_ROLE_Q);
  k.AddTo(call, ATTEST_ROLE_K);
  v.AddTo(call, ATTEST_ROLE_V);
  past_k.AddTo(call, ATTEST_ROLE_PAST_K);
  past_v.AddTo(call, ATTEST_ROLE_PAST_V);
  out.AddTo(call, ATTEST_ROLE_OUT);
  call.Add(ATTEST_ROLE_PRESENT_K, kF32, {1, 2, 3, 1}, present_k.data());
  call.Add(ATTEST_ROLE_PRESENT_V, kF32, {1, 2, 3, 1}, present_v.data());
  ASSERT_EQ(call.Run(with_past), ATTEST_OK) << call.message;
  EXPECT_NEAR(out.data[0], 2, 1e-5);
  EXPECT_NEAR(out.data[1], 20, 1e-5);
  EXPECT_THAT(present_v, ElementsAre(1, 2, 3, 10, 20, 30));
}

TEST_F(MultiHead, WhatItHasNoWordForIsUnsupported) {
  Rows q(1, 2, 1, 1), k(1, 1, 1, 1), out(1, 2, 1, 1);
  CallBuilder grouped;
  grouped.Scale(1);
  q.AddTo(grouped, ATTEST_ROLE_Q);
  k.AddTo(grouped, ATTEST_ROLE_K);
  k.AddTo(grouped, ATTEST_ROLE_V);
  out.AddTo(grouped, ATTEST_ROLE_OUT);
  EXPECT_EQ(grouped.Run(instance_), ATTEST_UNSUPPORTED);
  grouped.Real(ATTEST_OPTION_SOFTCAP, 1);
  EXPECT_EQ(grouped.Run(instance_), ATTEST_UNSUPPORTED);
}

TEST_F(MultiHead, BiasOfAnotherTypeIsUnsupported) {
  std::array<uint16_t, 4> halves{};
  std::array<float, 1> bias{};
  CallBuilder call;
  call.Scale(1);
  for (const int32_t role : {ATTEST_ROLE_Q, ATTEST_ROLE_K, ATTEST_ROLE_V, ATTEST_ROLE_OUT}) {
    call.Add(role, kF16, {1, 1, 1, 1}, halves.data());
  }
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  call.Add(ATTEST_ROLE_BIAS, kF32, {1, 1, 1, 1}, bias.data());
  EXPECT_EQ(call.Run(instance_), ATTEST_UNSUPPORTED);
}

class GroupQuery : public OperatorTest {
 protected:
  GroupQuery() : OperatorTest({{"variant", "gqa"}}) {}

  // A causal call; the tensors must outlive it.
  static CallBuilder Causal(Rows& q, Rows& k, Rows& v, Rows& out) {
    CallBuilder call;
    call.Scale(1).Option(ATTEST_OPTION_CAUSAL, 1);
    q.AddTo(call, ATTEST_ROLE_Q);
    k.AddTo(call, ATTEST_ROLE_K);
    v.AddTo(call, ATTEST_ROLE_V);
    out.AddTo(call, ATTEST_ROLE_OUT);
    return call;
  }
};

TEST_F(GroupQuery, RowsStandAtTheLastKeysAndHeadsShareByBlocks) {
  // Two queries over three keys: they see two and three of them. Heads 0 and 1 read kv head 0.
  Rows q(1, 4, 2, 8), k(1, 2, 3, 8), v(1, 2, 3, 8, {1, 10, 3, 30, 5, 50}), out(1, 4, 2, 8);
  CallBuilder call = Causal(q, k, v, out);
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  const Floats labels = out.labels();
  const Floats due = {2, 2, 20, 20, 3, 3, 30, 30};
  for (size_t n = 0; n < due.size(); ++n) EXPECT_NEAR(labels[n], due[n], 1e-4) << n;
}

TEST_F(GroupQuery, EachItemIsSplitAtItsOwnLength) {
  // One query: items of one and three keys. The labels of 100 lie behind item 0's length.
  Rows q(2, 1, 1, 8), k(2, 1, 3, 8), v(2, 1, 3, 8, {1, 100, 100, 2, 4, 6}), out(2, 1, 1, 8);
  std::array<int64_t, 2> lengths = {1, 3};
  CallBuilder call = Causal(q, k, v, out);
  call.Add(ATTEST_ROLE_KEY_LENGTHS, kI64, {2}, lengths.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  EXPECT_NEAR(out.labels()[0], 1, 1e-5);
  EXPECT_NEAR(out.labels()[1], 4, 1e-5);
}

TEST_F(GroupQuery, BiasIsCutToTheLongestItem) {
  Rows q(1, 1, 1, 8), k(1, 1, 4, 8), v(1, 1, 4, 8, {2, 4, 100, 100}), out(1, 1, 1, 8);
  std::array<int64_t, 1> lengths = {2};
  std::array<float, 4> bias = {std::log(3.0f), 0, 7, 7};
  CallBuilder call = Causal(q, k, v, out);
  call.Add(ATTEST_ROLE_KEY_LENGTHS, kI64, {1}, lengths.data());
  call.Add(ATTEST_ROLE_BIAS, kF32, {1, 1, 1, 4}, bias.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  EXPECT_NEAR(out.labels()[0], 2.5, 1e-5);
}

TEST_F(GroupQuery, WindowCountsTheDiagonalKey) {
  Rows q(1, 1, 1, 8), k(1, 1, 4, 8), v(1, 1, 4, 8, {1, 2, 4, 8}), out(1, 1, 1, 8);
  CallBuilder call = Causal(q, k, v, out);
  call.Option(ATTEST_OPTION_WINDOW_LEFT, 2);
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  EXPECT_NEAR(out.labels()[0], 6, 1e-5);
}

TEST_F(GroupQuery, SinksTakeTheirShareAndAreOfferedWhereAskedFor) {
  const Instance with_sinks({{"variant", "gqa"}, {"sinks", "on"}});
  ASSERT_EQ(with_sinks.status(), ATTEST_OK) << with_sinks.message();
  EXPECT_THAT(Table().contract(with_sinks.get()), HasSubstr("\"sinks\"], \"dtypes\": [\"f32\"]"));
  Rows q(1, 1, 1, 8), k(1, 1, 1, 8), v(1, 1, 1, 8, {8}), out(1, 1, 1, 8);
  std::array<float, 1> sinks = {std::log(3.0f)};
  CallBuilder call = Causal(q, k, v, out);
  call.Add(ATTEST_ROLE_SINKS, kF32, {1}, sinks.data());
  ASSERT_EQ(call.Run(with_sinks), ATTEST_OK) << call.message;
  EXPECT_NEAR(out.labels()[0], 2, 1e-5);
}

TEST_F(GroupQuery, PastAndNewKeysMakeThePresentWhereverTheyAreSplit) {
  // Two queries and one new key: the operator wants two new ones, so one comes out of the past.
  const Instance chunks({{"variant", "gqa"}, {"step", "chunk"}});
  ASSERT_EQ(chunks.status(), ATTEST_OK) << chunks.message();
  Rows q(1, 1, 2, 8), k(1, 1, 1, 8), v(1, 1, 1, 8, {6}), out(1, 1, 2, 8);
  Rows past_k(1, 1, 2, 8), past_v(1, 1, 2, 8, {2, 4});
  Floats present_k(24), present_v(24);
  CallBuilder call = Causal(q, k, v, out);
  past_k.AddTo(call, ATTEST_ROLE_PAST_K);
  past_v.AddTo(call, ATTEST_ROLE_PAST_V);
  call.Add(ATTEST_ROLE_PRESENT_K, kF32, {1, 1, 3, 8}, present_k.data());
  call.Add(ATTEST_ROLE_PRESENT_V, kF32, {1, 1, 3, 8}, present_v.data());
  ASSERT_EQ(call.Run(chunks), ATTEST_OK) << call.message;
  EXPECT_NEAR(out.labels()[0], 3, 1e-5);
  EXPECT_NEAR(out.labels()[1], 4, 1e-5);
  EXPECT_EQ(present_v[0], 2);
  EXPECT_EQ(present_v[8], 4);
  EXPECT_EQ(present_v[16], 6);
}

TEST_F(GroupQuery, FewerKeysThanQueriesAndCallsWithoutCausalityAreUnsupported) {
  Rows q(1, 1, 2, 8), k(1, 1, 1, 8), v(1, 1, 1, 8), out(1, 1, 2, 8);
  CallBuilder fewer = Causal(q, k, v, out);
  EXPECT_EQ(fewer.Run(instance_), ATTEST_UNSUPPORTED);
  EXPECT_THAT(fewer.message, HasSubstr("fewer keys"));
  Rows one(1, 1, 1, 8), target(1, 1, 1, 8);
  CallBuilder free;
  free.Scale(1);
  one.AddTo(free, ATTEST_ROLE_Q);
  k.AddTo(free, ATTEST_ROLE_K);
  v.AddTo(free, ATTEST_ROLE_V);
  target.AddTo(free, ATTEST_ROLE_OUT);
  const bool has_switch = HasCausalSwitch(Table().version);
  EXPECT_EQ(free.Run(instance_), has_switch ? ATTEST_OK : ATTEST_UNSUPPORTED);
}

TEST(GroupQueryVersions, CausalIsAnAttributeSince130) {
  EXPECT_FALSE(HasCausalSwitch("1.28.2"));
  EXPECT_FALSE(HasCausalSwitch("1.9"));
  EXPECT_TRUE(HasCausalSwitch("1.30.0"));
  EXPECT_TRUE(HasCausalSwitch("2.0"));
}

}  // namespace
}  // namespace attest::ort
