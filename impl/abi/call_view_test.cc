#include "impl/abi/call_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

namespace attest {
namespace {

using testing::HasSubstr;

constexpr DLDataType kFloat32{kDLFloat, 32, 1};
constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};

// A tensor with memory of its own, dense.
struct TestTensor {
  TestTensor(DLDataType type, std::vector<int64_t> extents) : shape(std::move(extents)) {
    int64_t count = 1;
    strides.resize(shape.size());
    for (size_t axis = shape.size(); axis-- > 0;) {
      strides[axis] = count;
      count *= shape[axis];
    }
    storage.resize(static_cast<size_t>(count) * type.bits / 8 / sizeof(int64_t) + 1);
    tensor.data = storage.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int>(shape.size());
    tensor.dtype = type;
    tensor.shape = shape.data();
    tensor.strides = strides.data();
  }
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;

  std::vector<int64_t> shape, strides;
  std::vector<int64_t> storage;  // int64_t for its alignment
  DLTensor tensor{};
};

attest_option Integer(int32_t id, int64_t value) {
  attest_option option{};
  option.id = id;
  option.value.i = value;
  return option;
}

attest_option Float(int32_t id, double value) {
  attest_option option{};
  option.id = id;
  option.is_float = 1;
  option.value.f = value;
  return option;
}

// A good call of batch 2, 4 query heads on 2 key heads, q_len 3, kv_len 5, head_dim 6, value_dim 7,
// which the tests spoil in one place each.
class CallViewTest : public testing::Test {
 protected:
  CallViewTest() {
    arguments_ = {{ATTEST_ROLE_Q, &q_.tensor},
                  {ATTEST_ROLE_K, &k_.tensor},
                  {ATTEST_ROLE_V, &v_.tensor},
                  {ATTEST_ROLE_OUT, &out_.tensor}};
    options_ = {Float(ATTEST_OPTION_SCALE, 0.5)};
  }

  tl::expected<CallView, CallError> Parse() {
    attest_call call{};
    call.struct_size = struct_size_;
    call.num_arguments = static_cast<uint32_t>(arguments_.size());
    call.arguments = arguments_.data();
    call.num_options = static_cast<uint32_t>(options_.size());
    call.options = options_.data();
    return ParseCall(call);
  }

  void ExpectRefused(attest_status status, const std::string& text) {
    const auto view = Parse();
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error().status, status) << view.error().message;
    EXPECT_THAT(view.error().message, HasSubstr(text));
    EXPECT_EQ(view.error().message.find('\n'), std::string::npos);
  }
  void ExpectInvalid(const std::string& text) { ExpectRefused(ATTEST_INVALID_ARGUMENT, text); }
  void ExpectUnsupported(const std::string& text) { ExpectRefused(ATTEST_UNSUPPORTED, text); }

  TestTensor q_{kFloat32, {2, 4, 3, 6}};
  TestTensor k_{kFloat32, {2, 2, 5, 6}};
  TestTensor v_{kFloat32, {2, 2, 5, 7}};
  TestTensor out_{kFloat32, {2, 4, 3, 7}};
  TestTensor lengths_{kInt64, {2}};
  uint32_t struct_size_ = sizeof(attest_call);
  std::vector<attest_argument> arguments_;
  std::vector<attest_option> options_;
};

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
  arguments_.push_back({ATTEST_ROLE_SINKS, &lengths_.tensor});
  ExpectUnsupported("tensor role 14");
  arguments_.back().role = 12345;
  ExpectUnsupported("tensor role 12345");
  arguments_.pop_back();
  options_.push_back(Float(ATTEST_OPTION_SOFTCAP, 30));
  ExpectUnsupported("option 5");
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

TEST_F(CallViewTest, AnOlderCallStructIsInvalid) {
  struct_size_ = sizeof(attest_call) - 1;
  ExpectInvalid("struct_size");
}

}  // namespace
}  // namespace attest
