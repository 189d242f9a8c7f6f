#include "impl/abi/call_view.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "impl/abi/testing/call_fixture.h"

namespace attest {
namespace {

TEST_F(CallViewTest, GoodCallGivesSizesAndScale) {
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->batch, 2);
  EXPECT_EQ(view->q_heads, 4);
  EXPECT_EQ(view->kv_heads, 2);
  EXPECT_EQ(view->q_len, 3);
  EXPECT_EQ(view->kv_len, 5);
  EXPECT_EQ(view->head_dim, 6);
  EXPECT_EQ(view->value_dim, 7);
  EXPECT_EQ(view->scale, 0.5);
  EXPECT_FALSE(view->causal);
  EXPECT_FALSE(view->lse || view->weights || view->mask || view->bias);
  EXPECT_EQ(view->KvHead(1), 0);
  EXPECT_EQ(view->KvHead(2), 1);
  EXPECT_EQ(view->KeyLength(1), 5);
  EXPECT_EQ(view->DiagonalOffset(1), 0);
}

TEST_F(CallViewTest, StridesAndByteOffsetReachTheElement) {
  q_.strides = {12, 3, 0, 2};
  q_.tensor.byte_offset = 4;
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  const auto* base = reinterpret_cast<float*>(q_.storage.data());
  EXPECT_EQ((view->q.Pointer<float>(1, 2, 2, 3)), base + 1 + 12 + 6 + 6);
}

TEST_F(CallViewTest, BroadcastAxesHaveStrideZero) {
  TestTensor mask(kByte, {4, 1, 5});
  arguments_.push_back({ATTEST_ROLE_MASK, &mask.tensor});
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->mask->strides, (Shape4{0, 5, 0, 1}));
  EXPECT_EQ(view->mask->shape, (Shape4{2, 4, 3, 5}));
}

TEST_F(CallViewTest, OptionsAndIntegersAreRead) {
  options_.push_back(Integer(ATTEST_OPTION_CAUSAL, 1));
  options_.push_back(Integer(ATTEST_OPTION_WINDOW_LEFT, 0));
  options_.push_back(Integer(ATTEST_OPTION_WINDOW_RIGHT, INT64_MAX));
  lengths_.storage = {0, 5};
  TestTensor offsets(kInt64, {2});
  offsets.storage = {-7, 3};
  arguments_.push_back({ATTEST_ROLE_KEY_LENGTHS, &lengths_.tensor});
  arguments_.push_back({ATTEST_ROLE_DIAGONAL_OFFSET, &offsets.tensor});
  // storage may move when assigned
  lengths_.tensor.data = lengths_.storage.data();
  offsets.tensor.data = offsets.storage.data();
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_TRUE(view->causal);
  EXPECT_EQ(view->window_left, 0);
  EXPECT_EQ(view->window_right, int64_t{1} << 42);
  EXPECT_EQ(view->KeyLength(0), 0);
  EXPECT_EQ(view->DiagonalOffset(0), -7);
}

TEST_F(CallViewTest, TensorsWithoutElementsNeedNoData) {
  TestTensor q(kFloat32, {2, 4, 0, 6}), out(kFloat32, {2, 4, 0, 7});
  q.tensor.data = nullptr;
  out.tensor.data = nullptr;
  arguments_[0].tensor = &q.tensor;
  arguments_[3].tensor = &out.tensor;
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->q_len, 0);
}

TEST_F(CallViewTest, UnknownRolesAndOptionsAreUnsupported) {
  arguments_.push_back({12345, &lengths_.tensor});
  ExpectUnsupported("tensor role 12345");
  arguments_.pop_back();
  options_.push_back(Float(99, 30));
  ExpectUnsupported("option 99");
}

TEST_F(CallViewTest, MissingAndRepeatedPartsAreInvalid) {
  options_.push_back(options_[0]);
  ExpectInvalid("option 1 is given twice");
  options_.clear();
  ExpectInvalid("scale is missing");
  options_ = {Float(ATTEST_OPTION_SCALE, 1)};
  arguments_.push_back(arguments_[0]);
  ExpectInvalid("q is given twice");
  arguments_ = {arguments_[0], arguments_[1], arguments_[2]};
  ExpectInvalid("out is missing");
  arguments_[1].tensor = nullptr;
  ExpectInvalid("k is a null tensor");
}

TEST_F(CallViewTest, OptionsOfTheWrongKindAreInvalid) {
  options_.push_back(Float(ATTEST_OPTION_CAUSAL, 1));
  ExpectInvalid("causal must be an integer");
  options_.back() = Integer(ATTEST_OPTION_CAUSAL, 2);
  ExpectInvalid("causal = 2");
  options_.back() = Integer(ATTEST_OPTION_WINDOW_LEFT, -1);
  ExpectInvalid("window_left = -1");
  options_ = {Integer(ATTEST_OPTION_SCALE, 1)};
  ExpectInvalid("scale must be a float");
}

TEST_F(CallViewTest, ShapesThatContradictOneAnotherAreInvalid) {
  for (auto [tensor, axis, name] : {std::tuple{&q_, 3, "k has shape"},
                                    {&k_, 0, "k has shape"},
                                    {&k_, 2, "v has shape"},
                                    {&v_, 1, "v has shape"},
                                    {&v_, 3, "out has shape"},
                                    {&out_, 2, "out has shape"},
                                    {&k_, 1, "does not divide"}}) {
    int64_t& extent = tensor->shape[static_cast<size_t>(axis)];
    const int64_t old = extent;
    extent = tensor == &k_ && axis == 1 ? 3 : 1;
    ExpectInvalid(name);
    extent = old;
  }
  EXPECT_TRUE(Parse());
}

TEST_F(CallViewTest, MasksThatDoNotBroadcastAreInvalid) {
  TestTensor mask(kByte, {2, 5});
  arguments_.push_back({ATTEST_ROLE_MASK, &mask.tensor});
  ExpectInvalid("mask has shape [2, 5], which does not broadcast to [2, 4, 3, 5]");
  mask.tensor.ndim = 1;
  ExpectInvalid("rank 1, expected 2 to 4");
}

TEST_F(CallViewTest, WrongElementTypesAreRefused) {
  k_.tensor.dtype = {kDLFloat, 16, 1};
  ExpectInvalid("k has the wrong element type");
  k_.tensor.dtype = kFloat32;
  TestTensor mask(kInt64, {3, 5});
  arguments_.push_back({ATTEST_ROLE_MASK, &mask.tensor});
  ExpectInvalid("mask has the wrong element type");
  arguments_.pop_back();
  q_.tensor.dtype = {kDLInt, 8, 1};
  ExpectUnsupported("q has an element type");
}

TEST_F(CallViewTest, LengthsOutsideTheKeysAreInvalid) {
  arguments_.push_back({ATTEST_ROLE_KEY_LENGTHS, &lengths_.tensor});
  lengths_.storage[1] = 6;
  ExpectInvalid("key_lengths[1] = 6 is outside 0..5");
  lengths_.storage[1] = -1;
  ExpectInvalid("key_lengths[1] = -1");
  arguments_.back().role = ATTEST_ROLE_DIAGONAL_OFFSET;
  lengths_.storage[1] = INT64_MIN;
  ExpectInvalid("diagonal_offset[1]");
}

TEST_F(CallViewTest, StorageThatCannotBeReadIsRefused) {
  q_.tensor.byte_offset = 2;
  ExpectInvalid("q is not aligned");
  q_.tensor.byte_offset = 0;
  q_.strides[2] = -6;
  ExpectUnsupported("q has a negative stride");
  q_.strides[2] = 6;
  q_.tensor.strides = nullptr;
  ExpectInvalid("q has no strides");
  q_.tensor.strides = q_.strides.data();
  q_.tensor.device.device_type = kDLCUDA;
  ExpectUnsupported("q is not in CPU memory");
  q_.tensor.device.device_type = kDLCPU;
  q_.tensor.data = nullptr;
  ExpectInvalid("q has elements but no data");
}

TEST_F(CallViewTest, FeaturesAreRead) {
  options_.push_back(Float(ATTEST_OPTION_SOFTCAP, 30));
  TestTensor& sinks = Add(ATTEST_ROLE_SINKS, kFloat32, {4});
  reinterpret_cast<float*>(sinks.storage.data())[3] = 0.5F;
  Add(ATTEST_ROLE_ALIBI_SLOPES, kFloat32, {4});
  AddIntegers(ATTEST_ROLE_QUERY_LENGTHS, {2}, {0, 3});
  AddIntegers(ATTEST_ROLE_PREFIX_LENGTHS, {2}, {5, 1});
  AddIntegers(ATTEST_ROLE_DOCUMENT_IDS, {2, 3}, {0, 0, 1, 7, 8, 9});
  AddIntegers(ATTEST_ROLE_KEY_DOCUMENT_IDS, {2, 5}, {0, 0, 0, 1, 1, 7, 7, 8, 8, INT64_MAX});
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->softcap, 30);
  EXPECT_EQ(*view->sinks, (std::vector<double>{0, 0, 0, 0.5}));
  EXPECT_EQ(view->alibi_slopes->size(), 4u);
  EXPECT_EQ(view->QueryLength(1), 3);
  EXPECT_EQ(view->StoredRows(0), 3) << "padded rows are there";
  EXPECT_EQ(view->PrefixLength(0), 5);
  EXPECT_TRUE(view->InOneDocument(0, 2, 3));
  EXPECT_FALSE(view->InOneDocument(1, 0, 4));
}

TEST_F(CallViewTest, BlockMasksAreReadByTile) {
  options_.push_back(Integer(ATTEST_OPTION_BLOCK_Q, 2));
  options_.push_back(Integer(ATTEST_OPTION_BLOCK_K, 4));
  TestTensor& mask = Add(ATTEST_ROLE_BLOCK_MASK, kByte, {1, 4, 2, 2});
  reinterpret_cast<uint8_t*>(mask.storage.data())[3 * 4 + 1] = 1;  // head 3, rows 0-1, keys 4-7
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_TRUE(view->block_mask->Attends(1, 3, 1, 4));
  EXPECT_FALSE(view->block_mask->Attends(1, 3, 2, 4));
  EXPECT_FALSE(view->block_mask->Attends(1, 3, 1, 3));
  options_.back() = Integer(ATTEST_OPTION_BLOCK_K, 5);
  ExpectInvalid("block_mask has shape [1, 4, 2, 2]");
  options_.back() = Integer(ATTEST_OPTION_BLOCK_K, 0);
  ExpectInvalid("block_k = 0");
  options_.pop_back();
  ExpectInvalid("option block_k is missing beside block_mask");
}

// A tile axis does not broadcast.
TEST_F(CallViewTest, ABlockMaskOfOneTileForManyIsInvalid) {
  options_.push_back(Integer(ATTEST_OPTION_BLOCK_Q, 2));
  options_.push_back(Integer(ATTEST_OPTION_BLOCK_K, 5));
  Add(ATTEST_ROLE_BLOCK_MASK, kByte, {1, 1, 1, 1});
  ExpectInvalid("block_mask has 1 tiles along axis 2, expected 2");
}

TEST_F(CallViewTest, DropoutAndScoresComeInPairs) {
  options_.push_back(Float(ATTEST_OPTION_DROPOUT, 0.5));
  ExpectInvalid("dropout_mask is missing beside option dropout");
  Add(ATTEST_ROLE_DROPOUT_MASK, kByte, {2, 4, 3, 5});
  EXPECT_EQ(Parse()->dropout->probability, 0.5);
  options_.back() = Float(ATTEST_OPTION_DROPOUT, 1);
  ExpectInvalid("dropout = 1 is outside");
  options_.pop_back();
  ExpectInvalid("option dropout is missing beside dropout_mask");
  arguments_.pop_back();
  Add(ATTEST_ROLE_SCORES, kFloat32, {2, 4, 3, 5});
  ExpectInvalid("option scores is missing beside scores");
  options_.push_back(Integer(ATTEST_OPTION_SCORES, 4));
  ExpectInvalid("scores = 4 is outside 0..3");
  options_.back() = Integer(ATTEST_OPTION_SCORES, 2);
  EXPECT_EQ(Parse()->score_mode, 2);
}

TEST_F(CallViewTest, FeaturesThatContradictTheCallAreInvalid) {
  options_.push_back(Float(ATTEST_OPTION_SOFTCAP, -1));
  ExpectInvalid("softcap = -1");
  options_.pop_back();
  Add(ATTEST_ROLE_SINKS, kFloat32, {2});
  ExpectInvalid("sinks has shape [2], expected [4]");
  arguments_.pop_back();
  AddIntegers(ATTEST_ROLE_QUERY_LENGTHS, {2}, {0, 4});
  ExpectInvalid("query_lengths[1] = 4 is outside 0..3");
  arguments_.pop_back();
  AddIntegers(ATTEST_ROLE_PREFIX_LENGTHS, {2}, {6, 0});
  ExpectInvalid("prefix_lengths[0] = 6 is outside 0..5");
  arguments_.pop_back();
  AddIntegers(ATTEST_ROLE_DOCUMENT_IDS, {2, 3}, {0, 0, 0, 0, 0, 0});
  ExpectInvalid("key_document_ids is missing beside document_ids");
}

TEST_F(CallViewTest, ABiasMayBeF32BesideNarrowTypes) {
  constexpr DLDataType kHalf{kDLFloat, 16, 1};
  for (TestTensor* tensor : {&q_, &k_, &v_, &out_}) tensor->tensor.dtype = kHalf;
  TestTensor& bias = Add(ATTEST_ROLE_BIAS, kFloat32, {3, 5});
  EXPECT_EQ(Parse()->bias_dtype, DType::kF32);
  bias.tensor.dtype = kHalf;
  EXPECT_EQ(Parse()->bias_dtype, DType::kF16);
  bias.tensor.dtype = {kDLBfloat, 16, 1};
  ExpectInvalid("bias has the wrong element type");
}

TEST_F(CallViewTest, GradientsAreOfBackwardCalls) {
  AddGradients();
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_FALSE(view->gradients->dbias || view->gradients->dsink);
  pass_ = Pass::kForward;
  ExpectUnsupported("dout is not offered in a forward call");
  pass_ = Pass::kBackward;
  arguments_.pop_back();
  ExpectInvalid("dv is missing");
}

TEST_F(CallViewTest, TheGradientOfABiasHasItsExtents) {
  AddGradients();
  Add(ATTEST_ROLE_DBIAS, kFloat32, {4, 1, 5});
  ExpectInvalid("dbias is given without bias");
  Add(ATTEST_ROLE_BIAS, kFloat32, {4, 1, 5});
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->gradients->dbias->shape, (Shape4{1, 4, 1, 5}));
  EXPECT_EQ(view->gradients->dbias->strides[1], 5);
  EXPECT_EQ(view->gradients->dbias->strides[3], 1);
  arguments_.pop_back();
  Add(ATTEST_ROLE_BIAS, kFloat32, {2, 4, 3, 5});
  ExpectInvalid("dbias has rank 3");
}

TEST_F(CallViewTest, TheGradientOfSinksStandsBesideThem) {
  AddGradients();
  Add(ATTEST_ROLE_DSINK, kFloat32, {4});
  ExpectInvalid("dsink is given without sinks");
  Add(ATTEST_ROLE_SINKS, kFloat32, {4});
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->gradients->dsink->shape, (Shape4{4, 1, 1, 1}));
}

TEST_F(CallViewTest, AnOlderCallStructIsInvalid) {
  struct_size_ = sizeof(attest_call) - 1;
  ExpectInvalid("struct_size");
}

}  // namespace
}  // namespace attest
