// A good call that the tests of the call's glue spoil in one place each.
#ifndef ATTEST_ABI_TESTING_CALL_FIXTURE_H_
#define ATTEST_ABI_TESTING_CALL_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "impl/abi/call_view.h"

namespace attest {

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
  TestTensor(std::vector<int64_t> extents, const std::vector<int64_t>& values)
      : TestTensor(kInt64, std::move(extents)) {
    std::copy(values.begin(), values.end(), storage.begin());
  }
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;

  std::vector<int64_t> shape, strides;
  std::vector<int64_t> storage;  // int64_t for its alignment
  DLTensor tensor{};
};

inline attest_option Integer(int32_t id, int64_t value) {
  attest_option option{};
  option.id = id;
  option.value.i = value;
  return option;
}

inline attest_option Float(int32_t id, double value) {
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
    return ParseCall(call, pass_);
  }

  // Makes it a backward call that asks for no gradients of bias and sinks.
  void AddGradients() {
    pass_ = Pass::kBackward;
    Add(ATTEST_ROLE_DOUT, kFloat32, {2, 4, 3, 7});
    Add(ATTEST_ROLE_DQ, kFloat32, {2, 4, 3, 6});
    Add(ATTEST_ROLE_DK, kFloat32, {2, 2, 5, 6});
    Add(ATTEST_ROLE_DV, kFloat32, {2, 2, 5, 7});
  }

  // One more tensor of the call, zero or of the given integers.
  TestTensor& Add(int32_t role, DLDataType type, std::vector<int64_t> shape) {
    TestTensor& tensor = more_.emplace_back(type, std::move(shape));
    arguments_.push_back({role, &tensor.tensor});
    return tensor;
  }
  TestTensor& AddIntegers(int32_t role, std::vector<int64_t> shape,
                          const std::vector<int64_t>& values) {
    TestTensor& tensor = more_.emplace_back(std::move(shape), values);
    arguments_.push_back({role, &tensor.tensor});
    return tensor;
  }

  void ExpectRefused(attest_status status, const std::string& text) {
    const auto view = Parse();
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error().status, status) << view.error().message;
    EXPECT_THAT(view.error().message, testing::HasSubstr(text));
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
  Pass pass_ = Pass::kForward;
  std::vector<attest_argument> arguments_;
  std::vector<attest_option> options_;
  std::deque<TestTensor> more_;  // a deque never moves its elements
};

}  // namespace attest

#endif  // ATTEST_ABI_TESTING_CALL_FIXTURE_H_
