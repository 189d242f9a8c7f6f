// What the adapter's tests share: the plug-in as the worker sees it, loaded with dlopen and called
// through its table, and calls to try it with.
#ifndef ATTEST_ADAPTERS_ONNXRUNTIME_TESTING_H_
#define ATTEST_ADAPTERS_ONNXRUNTIME_TESTING_H_

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "attest/kernel.h"

namespace attest::ort {

// The plug-in's table; a failure where it cannot be loaded.
inline const attest_kernel_table& Table() {
  static const attest_kernel_table* table = [] {
    void* library = dlopen(ATTEST_ONNXRUNTIME_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    return reinterpret_cast<decltype(&attest_kernel)>(dlsym(library, "attest_kernel"))();
  }();
  return *table;
}

using Options = std::vector<attest_string_pair>;

// One instance, or the status and message with which it was refused.
class Instance {
 public:
  explicit Instance(const Options& options = {}, int threads = 1) {
    std::array<char, 512> message{};
    const attest_create_info info = {sizeof(attest_create_info),
                                     threads,
                                     static_cast<uint32_t>(options.size()),
                                     options.data(),
                                     message.data(),
                                     message.size()};
    status_ = Table().create(&info, &kernel_);
    message_ = message.data();
  }
  ~Instance() {
    if (status_ == ATTEST_OK) Table().destroy(kernel_);
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  attest_status status() const { return status_; }
  const std::string& message() const { return message_; }
  void* get() const { return kernel_; }

 private:
  attest_status status_ = ATTEST_FAILED;
  std::string message_;
  void* kernel_ = nullptr;
};

// A call under construction; owns the tensors' descriptions, not their data.
class CallBuilder {
 public:
  CallBuilder& Add(int32_t role, DLDataType type, std::vector<int64_t> shape, void* data,
                   std::vector<int64_t> strides = {}) {
    Described& d = tensors_.emplace_back();
    d.shape = std::move(shape);
    d.strides = strides.empty() ? RowMajor(d.shape) : std::move(strides);
    d.tensor = {data, {kDLCPU, 0},    static_cast<int32_t>(d.shape.size()),
                type, d.shape.data(), d.strides.data(),
                0};
    arguments_.push_back({role, &d.tensor});
    return *this;
  }
  CallBuilder& Option(int32_t id, int64_t value) {
    attest_option option{id, 0, {}};
    option.value.i = value;
    options_.push_back(option);
    return *this;
  }
  CallBuilder& Real(int32_t id, double value) {
    attest_option option{id, 1, {}};
    option.value.f = value;
    options_.push_back(option);
    return *this;
  }
  CallBuilder& Scale(double value) { return Real(ATTEST_OPTION_SCALE, value); }
  attest_status Run(const Instance& instance) {
    std::array<char, 512> text{};
    attest_call call = {sizeof(attest_call), static_cast<uint32_t>(options_.size()),
                        options_.data(),     static_cast<uint32_t>(arguments_.size()),
                        arguments_.data(),   text.data(),
                        text.size()};
    const attest_status status = Table().forward(instance.get(), &call);
    message = text.data();
    return status;
  }

  std::string message;

 private:
  static std::vector<int64_t> RowMajor(const std::vector<int64_t>& shape) {
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
  }

  struct Described {
    std::vector<int64_t> shape, strides;
    DLTensor tensor{};
  };
  std::list<Described> tensors_;  // addresses stay
  std::vector<attest_argument> arguments_;
  std::vector<attest_option> options_;
};

inline constexpr DLDataType kF32 = {kDLFloat, 32, 1};
inline constexpr DLDataType kF16 = {kDLFloat, 16, 1};
inline constexpr DLDataType kU8 = {kDLUInt, 8, 1};
inline constexpr DLDataType kI64 = {kDLInt, 64, 1};

// Tests of one instance, skipped where ONNX Runtime is not installed.
class OperatorTest : public ::testing::Test {
 protected:
  explicit OperatorTest(const Options& options) : instance_(options) {}
  void SetUp() override {
    if (instance_.status() == ATTEST_UNSUPPORTED) GTEST_SKIP() << instance_.message();
    ASSERT_EQ(instance_.status(), ATTEST_OK) << instance_.message();
  }
  Instance instance_;
};

}  // namespace attest::ort

#endif  // ATTEST_ADAPTERS_ONNXRUNTIME_TESTING_H_
