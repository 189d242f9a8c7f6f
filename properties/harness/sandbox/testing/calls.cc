#include "properties/harness/sandbox/testing/calls.h"

#include <attest/kernel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "properties/harness/sandbox/locate.h"
#include "properties/harness/sandbox/strided.h"

namespace attest {

std::string TestPlugin(const std::string& name) {
  return (ProgramFolder().parent_path() / "sandbox_testdata" / (name + ".so")).string();
}

CallTensor DenseTensor(int32_t role, std::vector<int64_t> shape) {
  CallTensor tensor;
  tensor.role = role;
  tensor.is_output = role >= ATTEST_ROLE_OUT;
  tensor.strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) tensor.strides[d] = stride;
  tensor.shape = std::move(shape);
  const auto count = static_cast<size_t>(CountElements(tensor));
  tensor.image.resize(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i + 1);
    std::memcpy(&tensor.image[i * sizeof value], &value, sizeof value);
  }
  return tensor;
}

Call SmallCall() {
  Call call;
  for (const int32_t role : {ATTEST_ROLE_Q, ATTEST_ROLE_K, ATTEST_ROLE_V, ATTEST_ROLE_OUT})
    call.tensors.push_back(DenseTensor(role, {2, 2, 4, 4}));
  return call;
}

CallTensor& TensorOf(Call* call, int32_t role) {
  return *std::ranges::find(call->tensors, role, &CallTensor::role);
}

std::unique_ptr<KernelSession> OpenHostile(const std::string& variant,
                                           const SessionOptions& options) {
  const auto spec = ResolveKernel(TestPlugin("hostile") + ":" + variant);
  EXPECT_TRUE(spec) << spec.error();
  auto session = KernelSession::Open(*spec, options);
  EXPECT_TRUE(session) << session.error();
  return session ? std::move(*session) : nullptr;
}

CallResult RunHostile(const std::string& variant, const Call& call, const SessionOptions& options) {
  const auto session = OpenHostile(variant, options);
  if (session == nullptr) return {};
  return session->Run({&call, 1}).front();
}

std::vector<int> ChildProcesses() {
  std::vector<int> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string text;
    if (!std::getline(stat, text)) continue;
    // "pid (name) state parent": the name may hold anything, so read from the last ')'.
    int parent = 0;
    char state = 0;
    if (std::sscanf(text.c_str() + text.rfind(')') + 1, " %c %d", &state, &parent) == 2 &&
        parent == ::getpid())
      children.push_back(std::stoi(text));
  }
  return children;
}

}  // namespace attest
