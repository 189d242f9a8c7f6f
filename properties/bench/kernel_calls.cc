#include "properties/bench/kernel_calls.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "impl/attention/one_line.h"
#include "properties/harness/case/case.h"
#include "properties/harness/lower/lower.h"
#include "properties/harness/sandbox/session.h"

namespace attest {
namespace {

constexpr int64_t kMostMaskElements = int64_t{1} << 25;

DLDataType DLTypeOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * ByteSize(dtype));
  if (dtype == DType::kBF16) return {kDLBfloat, bits, 1};
  if (dtype == DType::kI64) return {kDLInt, bits, 1};
  if (dtype == DType::kBool || IsFp8(dtype)) return {kDLUInt, bits, 1};
  return {kDLFloat, bits, 1};
}

DLTensor TensorOf(CallTensor& tensor, void* data) {
  DLTensor view{};
  view.data = data;
  view.device = {kDLCPU, 0};
  view.ndim = static_cast<int32_t>(tensor.shape.size());
  view.dtype = DLTypeOf(tensor.dtype);
  view.shape = tensor.shape.data();
  view.strides = tensor.strides.data();
  return view;
}

attest_option OptionOf(const CallOption& option) {
  attest_option made{};
  made.id = option.id;
  made.is_float = option.is_float ? 1 : 0;
  if (option.is_float) {
    made.value.f = option.f;
  } else {
    made.value.i = option.i;
  }
  return made;
}

}  // namespace

CacheLines::CacheLines(size_t size)
    : data_(static_cast<std::byte*>(::operator new(std::max<size_t>(size, 1), kAlignment))) {}

PreparedCall::PreparedCall(const Plugin& plugin, Call call)
    : plugin_(plugin), call_(std::move(call)) {
  for (CallTensor& tensor : call_.tensors) {
    memory_.emplace_back(tensor.image.size());
    std::ranges::copy(tensor.image, memory_.back().data());
    tensors_.push_back(TensorOf(tensor, memory_.back().data()));
    tensor.image = {};
  }
  for (size_t n = 0; n < tensors_.size(); ++n) {
    arguments_.push_back({call_.tensors[n].role, &tensors_[n]});
  }
  for (const CallOption& option : call_.options) options_.push_back(OptionOf(option));
}

std::optional<std::string> PreparedCall::Run() {
  std::array<char, 256> message{};
  attest_call call{};
  call.struct_size = sizeof call;
  call.num_options = static_cast<uint32_t>(options_.size());
  call.options = options_.data();
  call.num_arguments = static_cast<uint32_t>(arguments_.size());
  call.arguments = arguments_.data();
  call.message = message.data();
  call.message_size = message.size();
  if (plugin_.table->forward(plugin_.kernel, &call) == ATTEST_OK) return std::nullopt;
  message.back() = '\0';
  return OneLine(message.data());
}

tl::expected<BenchKernel, std::string> BenchKernel::Load(const std::string& text, int threads) {
  const auto spec = ResolveKernel(text);
  if (!spec) return tl::unexpected(spec.error());
  auto plugin = LoadPlugin(spec->library, spec->options, threads);
  if (!plugin) return tl::unexpected(plugin.error());
  auto contract = ParseContract(plugin->contract);
  if (!contract) return tl::unexpected(contract.error());
  return BenchKernel(std::move(*plugin), std::move(*contract));
}

tl::expected<std::unique_ptr<PreparedCall>, std::string> BenchKernel::Prepare(
    const Problem& problem, const Inputs& inputs) const {
  Case c;
  c.problem = problem;
  if (contract_.layouts.count(TensorLayout::kBhsd) == 0) {
    c.layouts = {Layout::kBshd, Layout::kBshd, Layout::kBshd, Layout::kBshd};
  }
  auto lowered = Lower(c, inputs, contract_);
  if (!lowered) return tl::unexpected(lowered.error().reason);
  if (lowered->via_mask && problem.q_len * problem.kv_len > kMostMaskElements) {
    return tl::unexpected<std::string>("it would need too large a mask");
  }
  return std::make_unique<PreparedCall>(plugin_, std::move(lowered->call));
}

}  // namespace attest
