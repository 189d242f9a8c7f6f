// The plug-in and its Attention operator. Tests that need ONNX Runtime itself are skipped where it is
// not installed.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "impl/adapters/onnxruntime/testing.h"

namespace attest::ort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Two queries, two keys, one number each. Scores are ln 1 and ln 3, so the weights are 1/4 and 3/4
// and the output is 4/4 + 8 * 3/4 = 7; a row that sees the first key alone gives 4.
struct Tiny {
  std::array<float, 2> q = {1, 1};
  std::array<float, 2> k = {0, std::log(3.0f)};
  std::array<float, 2> v = {4, 8};
  std::array<float, 2> out = {-1, -1};

  CallBuilder Call(double scale = 1) {
    CallBuilder call;
    call.Scale(scale)
        .Add(ATTEST_ROLE_Q, kF32, {1, 1, 2, 1}, q.data())
        .Add(ATTEST_ROLE_K, kF32, {1, 1, 2, 1}, k.data())
        .Add(ATTEST_ROLE_V, kF32, {1, 1, 2, 1}, v.data())
        .Add(ATTEST_ROLE_OUT, kF32, {1, 1, 2, 1}, out.data());
    return call;
  }
  void ExpectOut(float first, float second) const {
    EXPECT_NEAR(out[0], first, 1e-5);
    EXPECT_NEAR(out[1], second, 1e-5);
  }
};

class WithRuntime : public OperatorTest {
 protected:
  WithRuntime() : OperatorTest({}) {}
  Tiny tiny_;
};

TEST(OnnxRuntimePlugin, TableIsComplete) {
  EXPECT_EQ(Table().abi_version, ATTEST_ABI_VERSION);
  EXPECT_EQ(Table().struct_size, sizeof(attest_kernel_table));
  EXPECT_STREQ(Table().name, "onnxruntime");
}

TEST(OnnxRuntimePlugin, UnknownOptionsAreNamedInTheRefusal) {
  EXPECT_EQ(Instance(Options{{"tile", "16"}}).status(), ATTEST_INVALID_ARGUMENT);
  EXPECT_THAT(Instance(Options{{"tile", "16"}}).message(), HasSubstr("tile=16"));
  EXPECT_THAT(Instance(Options{{"opset", "22"}}).message(), HasSubstr("opset=22"));
  EXPECT_THAT(Instance(Options{{"variant", "flash"}}).message(), HasSubstr("flash"));
  EXPECT_THAT(Instance(Options{{"variant", "mha"}, {"opset", "23"}}).message(), HasSubstr("past"));
  EXPECT_THAT(Instance(Options{{"past", "maybe"}}).message(), HasSubstr("past=maybe"));
  EXPECT_THAT(Instance(Options{{"version", "../../evil"}}).message(), HasSubstr("version="));
}

TEST(OnnxRuntimePlugin, MissingLibrarySaysHowToInstallIt) {
  const char* before = std::getenv("ATTEST_ONNXRUNTIME");
  const std::string kept = before == nullptr ? "" : before;
  setenv("ATTEST_ONNXRUNTIME", "no/such/libonnxruntime.so", 1);
  const Instance instance;
  if (before == nullptr) {
    unsetenv("ATTEST_ONNXRUNTIME");
  } else {
    setenv("ATTEST_ONNXRUNTIME", kept.c_str(), 1);
  }
  EXPECT_EQ(instance.status(), ATTEST_UNSUPPORTED);
  EXPECT_THAT(instance.message(), HasSubstr("ci/setup --with onnxruntime"));
  EXPECT_THAT(instance.message(), Not(HasSubstr("\n")));
}

TEST(OnnxRuntimePlugin, MissingVersionSaysWhichToAskFor) {
  const Instance instance(Options{{"version", "0.0.1"}});
  if (std::getenv("ATTEST_ONNXRUNTIME") != nullptr) GTEST_SKIP() << "ATTEST_ONNXRUNTIME is set";
  EXPECT_EQ(instance.status(), ATTEST_UNSUPPORTED);
  EXPECT_THAT(instance.message(), HasSubstr("ATTEST_ONNXRUNTIME_VERSIONS=0.0.1 ci/setup"));
}

TEST_F(WithRuntime, PlainCallMatchesHandCalculation) {
  CallBuilder call = tiny_.Call();
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  tiny_.ExpectOut(7, 7);
  EXPECT_STRNE(Table().version, "not loaded");
}

TEST_F(WithRuntime, ScaleZeroPointFiveHalvesTheScores) {
  CallBuilder call;
  call.Scale(0.5)
      .Add(ATTEST_ROLE_Q, kF32, {1, 1, 2, 1}, tiny_.q.data())
      .Add(ATTEST_ROLE_K, kF32, {1, 1, 2, 1}, tiny_.k.data())
      .Add(ATTEST_ROLE_V, kF32, {1, 1, 2, 1}, tiny_.v.data())
      .Add(ATTEST_ROLE_OUT, kF32, {1, 1, 2, 1}, tiny_.out.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  const float root = std::sqrt(3.0f);
  const float expected = (4 + 8 * root) / (1 + root);
  tiny_.ExpectOut(expected, expected);
}

TEST_F(WithRuntime, CausalFlagHidesTheSecondKeyFromTheFirstQuery) {
  CallBuilder call = tiny_.Call();
  call.Option(ATTEST_OPTION_CAUSAL, 1);
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  tiny_.ExpectOut(4, 7);
}

TEST_F(WithRuntime, BooleanMaskOneMeansAttendInEveryRank) {
  std::array<uint8_t, 4> mask = {1, 1, 1, 0};
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{2, 2}, {1, 2, 2}, {1, 1, 2, 2}}) {
    tiny_.out = {-1, -1};
    CallBuilder call = tiny_.Call();
    call.Add(ATTEST_ROLE_MASK, kU8, shape, mask.data());
    ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
    tiny_.ExpectOut(7, 4);
  }
}

TEST_F(WithRuntime, BiasIsAddedAndMinusInfinityHides) {
  const float minus_infinity = -INFINITY;
  std::array<float, 4> bias = {std::log(3.0f), 0, 0, minus_infinity};
  CallBuilder call = tiny_.Call();
  call.Add(ATTEST_ROLE_BIAS, kF32, {2, 2}, bias.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  tiny_.ExpectOut(6, 4);
}

TEST_F(WithRuntime, KeyLengthHidesTheKeysBeyondIt) {
  std::array<int64_t, 1> lengths = {1};
  CallBuilder call = tiny_.Call();
  call.Add(ATTEST_ROLE_KEY_LENGTHS, kI64, {1}, lengths.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  tiny_.ExpectOut(4, 4);
}

TEST_F(WithRuntime, WeightsAreTheProbabilities) {
  std::array<float, 4> weights = {-1, -1, -1, -1};
  CallBuilder call = tiny_.Call();
  call.Add(ATTEST_ROLE_WEIGHTS, kF32, {1, 1, 2, 2}, weights.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  tiny_.ExpectOut(7, 7);
  EXPECT_NEAR(weights[0], 0.25, 1e-6);
  EXPECT_NEAR(weights[3], 0.75, 1e-6);
}

TEST_F(WithRuntime, SoftcapBendsTheScores) {
  CallBuilder call = tiny_.Call();
  call.Real(ATTEST_OPTION_SOFTCAP, 0.5);
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  const float power = std::exp(0.5f * std::tanh(std::log(3.0f) / 0.5f));
  const float expected = (4 + 8 * power) / (1 + power);
  tiny_.ExpectOut(expected, expected);
}

TEST_F(WithRuntime, WeightsAndScoresComeFromOneCall) {
  // Mode 2 holds what the softmax sees: causality and the mask included.
  std::array<float, 4> weights{}, scores{};
  CallBuilder call = tiny_.Call();
  call.Option(ATTEST_OPTION_CAUSAL, 1)
      .Option(ATTEST_OPTION_SCORES, 0)
      .Add(ATTEST_ROLE_SCORES, kF32, {1, 1, 2, 2}, scores.data())
      .Add(ATTEST_ROLE_WEIGHTS, kF32, {1, 1, 2, 2}, weights.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  tiny_.ExpectOut(4, 7);
  EXPECT_NEAR(weights[0], 1, 1e-6);
  EXPECT_NEAR(weights[3], 0.75, 1e-6);
  EXPECT_NEAR(scores[0], 0, 1e-6);
  EXPECT_NEAR(scores[3], std::log(3.0), 1e-6);
}

TEST_F(WithRuntime, ScoresNeedTheirOption) {
  std::array<float, 4> scores{};
  CallBuilder call = tiny_.Call();
  call.Add(ATTEST_ROLE_SCORES, kF32, {1, 1, 2, 2}, scores.data());
  EXPECT_EQ(call.Run(instance_), ATTEST_INVALID_ARGUMENT);
}

TEST_F(WithRuntime, PastComesBeforeTheKeysAndIsPartOfThePresent) {
  const Instance with_past(Options{{"past", "on"}});
  ASSERT_EQ(with_past.status(), ATTEST_OK) << with_past.message();
  EXPECT_THAT(Table().contract(with_past.get()), HasSubstr("\"present\""));
  EXPECT_THAT(Table().contract(instance_.get()), Not(HasSubstr("\"present\"")));
  std::array<float, 1> past_k = {0}, past_v = {2}, k = {0}, v = {4};
  std::array<float, 2> present_k{}, present_v{}, weights{};
  CallBuilder call;
  call.Scale(1)
      .Option(ATTEST_OPTION_CAUSAL, 1)
      .Add(ATTEST_ROLE_Q, kF32, {1, 1, 1, 1}, tiny_.q.data())
      .Add(ATTEST_ROLE_PAST_K, kF32, {1, 1, 1, 1}, past_k.data())
      .Add(ATTEST_ROLE_PAST_V, kF32, {1, 1, 1, 1}, past_v.data())
      .Add(ATTEST_ROLE_K, kF32, {1, 1, 1, 1}, k.data())
      .Add(ATTEST_ROLE_V, kF32, {1, 1, 1, 1}, v.data())
      .Add(ATTEST_ROLE_OUT, kF32, {1, 1, 1, 1}, tiny_.out.data())
      .Add(ATTEST_ROLE_WEIGHTS, kF32, {1, 1, 1, 2}, weights.data())
      .Add(ATTEST_ROLE_PRESENT_K, kF32, {1, 1, 2, 1}, present_k.data())
      .Add(ATTEST_ROLE_PRESENT_V, kF32, {1, 1, 2, 1}, present_v.data());
  ASSERT_EQ(call.Run(with_past), ATTEST_OK) << call.message;
  EXPECT_NEAR(tiny_.out[0], 3, 1e-6);
  EXPECT_THAT(weights, ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(present_v, ElementsAre(2, 4));
}

TEST_F(WithRuntime, QueryHeadsShareKeyHeadsByBlocks) {
  // Four query heads over two key heads of one key each: heads 0 and 1 read 4, heads 2 and 3
  // read 8.
  std::array<float, 4> q = {1, 2, 3, 4};
  std::array<float, 4> out{};
  CallBuilder call;
  call.Scale(1)
      .Add(ATTEST_ROLE_Q, kF32, {1, 4, 1, 1}, q.data())
      .Add(ATTEST_ROLE_K, kF32, {1, 2, 1, 1}, tiny_.k.data())
      .Add(ATTEST_ROLE_V, kF32, {1, 2, 1, 1}, tiny_.v.data())
      .Add(ATTEST_ROLE_OUT, kF32, {1, 4, 1, 1}, out.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  EXPECT_THAT(out, ElementsAre(4, 4, 8, 8));
}

TEST_F(WithRuntime, HalfPrecisionCallReturnsHalfPrecision) {
  // 1, 0, 4 and 8 as f16; equal scores give the mean, 6.
  std::array<uint16_t, 1> q = {0x3C00};
  std::array<uint16_t, 2> k = {0, 0};
  std::array<uint16_t, 2> v = {0x4400, 0x4800};
  std::array<uint16_t, 1> out = {0};
  CallBuilder call;
  call.Scale(1)
      .Add(ATTEST_ROLE_Q, kF16, {1, 1, 1, 1}, q.data())
      .Add(ATTEST_ROLE_K, kF16, {1, 1, 2, 1}, k.data())
      .Add(ATTEST_ROLE_V, kF16, {1, 1, 2, 1}, v.data())
      .Add(ATTEST_ROLE_OUT, kF16, {1, 1, 1, 1}, out.data());
  ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
  EXPECT_EQ(out[0], 0x4600);
}

TEST_F(WithRuntime, WhatOnnxHasNoWordForIsUnsupported) {
  std::array<uint8_t, 4> mask = {1, 1, 1, 1};
  std::array<float, 4> bias = {0, 0, 0, 0};
  CallBuilder both = tiny_.Call();
  both.Add(ATTEST_ROLE_MASK, kU8, {2, 2}, mask.data());
  both.Add(ATTEST_ROLE_BIAS, kF32, {2, 2}, bias.data());
  EXPECT_EQ(both.Run(instance_), ATTEST_UNSUPPORTED);
  EXPECT_THAT(both.message, HasSubstr("attn_mask"));

  CallBuilder window = tiny_.Call();
  window.Option(ATTEST_OPTION_WINDOW_LEFT, 1);
  EXPECT_EQ(window.Run(instance_), ATTEST_UNSUPPORTED);

  CallBuilder lse = tiny_.Call();
  lse.Add(ATTEST_ROLE_LSE, kF32, {1, 1, 2}, bias.data());
  EXPECT_EQ(lse.Run(instance_), ATTEST_UNSUPPORTED);

  CallBuilder gapped = tiny_.Call();
  gapped.Add(ATTEST_ROLE_BIAS, kF32, {2, 2}, bias.data(), std::vector<int64_t>{1, 2});
  EXPECT_EQ(gapped.Run(instance_), ATTEST_UNSUPPORTED);
  EXPECT_THAT(gapped.message, HasSubstr("dense"));
}

TEST_F(WithRuntime, OldOpsetRefusesKeyLengthsAndDeclaresItsContract) {
  const Instance old(Options{{"variant", "attention"}, {"opset", "23"}});
  ASSERT_EQ(old.status(), ATTEST_OK) << old.message();
  EXPECT_THAT(Table().contract(old.get()), HasSubstr("onnx-attention-23"));
  EXPECT_THAT(Table().contract(instance_.get()), HasSubstr("onnx-attention-24"));
  std::array<int64_t, 1> lengths = {1};
  CallBuilder call = tiny_.Call();
  call.Add(ATTEST_ROLE_KEY_LENGTHS, kI64, {1}, lengths.data());
  EXPECT_EQ(call.Run(old), ATTEST_UNSUPPORTED);
  EXPECT_THAT(call.message, HasSubstr("opset"));
}

TEST_F(WithRuntime, MalformedCallsAreInvalidArguments) {
  CallBuilder without_output;
  without_output.Scale(1)
      .Add(ATTEST_ROLE_Q, kF32, {1, 1, 2, 1}, tiny_.q.data())
      .Add(ATTEST_ROLE_K, kF32, {1, 1, 2, 1}, tiny_.k.data())
      .Add(ATTEST_ROLE_V, kF32, {1, 1, 2, 1}, tiny_.v.data());
  EXPECT_EQ(without_output.Run(instance_), ATTEST_INVALID_ARGUMENT);
  CallBuilder flat = tiny_.Call();
  flat.Add(ATTEST_ROLE_BIAS, kF32, {2}, tiny_.q.data());
  EXPECT_EQ(flat.Run(instance_), ATTEST_INVALID_ARGUMENT);
}

TEST_F(WithRuntime, RuntimeErrorsComeBackOnOneLine) {
  std::array<float, 6> bias{};
  CallBuilder call = tiny_.Call();
  call.Add(ATTEST_ROLE_BIAS, kF32, {2, 3}, bias.data());
  EXPECT_EQ(call.Run(instance_), ATTEST_FAILED);
  EXPECT_FALSE(call.message.empty());
  EXPECT_THAT(call.message, Not(HasSubstr("\n")));
}

TEST_F(WithRuntime, ManyModelsMakeRoomForEachOther) {
  // More scales than sessions are kept, twice over: each answer belongs to its own scale.
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i <= 300; ++i) {
      const double scale = i / 100.0;
      CallBuilder call = tiny_.Call(scale);
      ASSERT_EQ(call.Run(instance_), ATTEST_OK) << call.message;
      const double power = std::pow(3.0, scale);
      ASSERT_NEAR(tiny_.out[0], (4 + 8 * power) / (1 + power), 1e-4) << "scale " << scale;
    }
  }
}

ptrdiff_t ThreadsOfThisProcess() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// A hundred pools of six threads would reserve gigabytes for their stacks.
TEST_F(WithRuntime, ManyModelsOfManyThreadsKeepFewOfThem) {
  const Instance instance({}, /*threads=*/7);
  ASSERT_EQ(instance.status(), ATTEST_OK) << instance.message();
  const ptrdiff_t before = ThreadsOfThisProcess();
  for (int i = 1; i <= 40; ++i) {
    CallBuilder call = tiny_.Call(i / 100.0);
    ASSERT_EQ(call.Run(instance), ATTEST_OK) << call.message;
  }
  EXPECT_GT(ThreadsOfThisProcess(), before);
  EXPECT_LE(ThreadsOfThisProcess(), before + 140);
}

}  // namespace
}  // namespace attest::ort
