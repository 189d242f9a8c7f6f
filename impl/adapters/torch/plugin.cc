// The plug-in attest_kernel_torch.so: PyTorch's attention from C++, as it is. Whatever it gets wrong is
// a finding; nothing here mends or avoids anything. Variants:
//   sdpa      at::_scaled_dot_product_attention
//   mha       torch::nn::functional::multi_head_attention_forward, the C++ nn.MultiheadAttention
//   mha_fast  at::_native_multi_head_attention, which the module in Python calls in eval mode
#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_attention.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <string>
#include <tl/expected.hpp>

#include "impl/abi/kernel_table.h"
#include "impl/adapters/torch/multi_head.h"
#include "impl/adapters/torch/tensors.h"

namespace attest {
namespace {

// The documentation of torch.nn.functional._scaled_dot_product_attention, PyTorch 1.13: all shapes are
// (N, ..., length, E), v's E too; attn_mask is boolean, (N, ..., L, S), and True takes part; is_causal
// goes without attn_mask; the weights are the second result. It does not say which diagonal is_causal
// means where L differs from S: from 2.0 on it is documented as the upper left one, which is what the
// tril() of 1.13 gives. Nothing is said of rows without a key, of NaN and infinities, or of bits. The
// sums of f16 and bf16 have no documented precision, so that these types are not promised. Its backward
// pass is autograd's.
constexpr const char* kSdpaContract = R"({
  "mask_true_means": "attend",
  "causal_offset": ["zero"],
  "excludes": ["causal_with_mask"],
  "empty_row": "unspecified",
  "lse": "none",
  "features": ["causal", "mask", "weights"],
  "backward": ["causal", "mask"],
  "dtypes": ["f32", "f64"],
  "layouts": ["bhsd", "bshd"],
  "strides": "any",
  "options": {"variant": ["sdpa", "mha", "mha_fast"]}
})";

using torch_adapter::Leaves;
using torch_adapter::Results;

tl::expected<Results, CallError> Sdpa(const CallView& call, const Leaves& leaves) {
  if (call.bias || call.key_lengths) {
    return tl::unexpected(
        CallError{ATTEST_UNSUPPORTED, "attn_mask is boolean, and there is no other"});
  }
  if (call.causal && call.mask) {
    return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "is_causal goes without attn_mask"});
  }
  c10::optional<at::Tensor> mask;
  if (call.mask) mask = torch_adapter::Wrap(*call.mask, at::kBool);
  const auto [out, weights] = at::_scaled_dot_product_attention(
      torch_adapter::ScaledQuery(call, leaves.q), leaves.k, leaves.v, mask, /*dropout_p=*/0.0,
      /*need_attn_weights=*/call.weights.has_value(), call.causal);
  return Results{out, weights};
}

struct Variant {
  const char* name;
  const char* contract;
  tl::expected<Results, CallError> (*forward)(const CallView& call, const Leaves& leaves);
};
constexpr Variant kVariants[] = {
    {"sdpa", kSdpaContract, Sdpa},
    {"mha", torch_adapter::kMultiHeadContract, torch_adapter::MultiHead},
    {"mha_fast", torch_adapter::kMultiHeadFastContract, torch_adapter::MultiHeadFast},
};

class Torch {
 public:
  static constexpr const char* kName = "torch";
  static constexpr const char* kVersion = TORCH_VERSION;
  static constexpr CallPart kTakes[] = {
      ATTEST_ROLE_Q,       ATTEST_ROLE_K,       ATTEST_ROLE_V,    ATTEST_ROLE_OUT,
      ATTEST_ROLE_WEIGHTS, ATTEST_ROLE_MASK,    ATTEST_ROLE_BIAS, ATTEST_ROLE_KEY_LENGTHS,
      ATTEST_OPTION_SCALE, ATTEST_OPTION_CAUSAL};

  static tl::expected<Torch, std::string> Create(const CreateOptions& options) {
    if (auto ok = RefuseOthers(options, {"variant"}); !ok) return tl::unexpected(ok.error());
    const auto given = options.values.find("variant");
    const std::string name = given == options.values.end() ? "sdpa" : given->second;
    for (const Variant& variant : kVariants) {
      if (name != variant.name) continue;
      if (options.threads > 0) at::set_num_threads(options.threads);
      return Torch(variant);
    }
    return tl::unexpected("unknown variant \"" + name + "\": there are sdpa, mha and mha_fast");
  }

  std::string Contract() const { return variant_->contract; }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    return Caught(call, [&]() -> tl::expected<void, CallError> {
      const c10::InferenceMode no_gradients;
      const auto results = variant_->forward(call, torch_adapter::LeavesOf(call));
      if (!results) return tl::unexpected(results.error());
      torch_adapter::Store(results->out, call.out);
      if (call.weights) torch_adapter::Store(results->weights, *call.weights);
      return {};
    });
  }

  // The forward pass anew, for autograd to go back through.
  tl::expected<void, CallError> Backward(const CallView& call) const {
    return Caught(call, [&]() -> tl::expected<void, CallError> {
      const Leaves leaves = torch_adapter::LeavesOf(call);
      for (const at::Tensor& leaf : {leaves.q, leaves.k, leaves.v, leaves.bias}) {
        if (leaf.defined()) leaf.set_requires_grad(true);
      }
      const auto results = variant_->forward(call, leaves);
      if (!results) return tl::unexpected(results.error());
      torch_adapter::StoreGradients(results->out, leaves, call);
      return {};
    });
  }

 private:
  explicit Torch(const Variant& variant) : variant_(&variant) {}

  // Runs `compute` on a call that some variant takes; what PyTorch throws becomes a line.
  template <typename Compute>
  static tl::expected<void, CallError> Caught(const CallView& call, Compute&& compute) {
    if (const auto why = torch_adapter::WhyNotOffered(call); !why.empty()) {
      return tl::unexpected(CallError{ATTEST_UNSUPPORTED, why});
    }
    try {
      return compute();
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      return tl::unexpected(CallError{ATTEST_FAILED, text.substr(0, text.find('\n'))});
    }
  }

  const Variant* variant_;
};

}  // namespace
}  // namespace attest

const attest_kernel_table* attest_kernel(void) {
  return attest::KernelTable<attest::Torch>();
}
