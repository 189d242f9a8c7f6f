#include "impl/adapters/torch/tensors.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace attest::torch_adapter {

std::string WhyNotOffered(const CallView& call) {
  if (call.dtype != DType::kF32 && call.dtype != DType::kF64) return "types are f32 and f64";
  if (call.q_heads != call.kv_heads) return "k has as many heads as q";
  if (call.value_dim != call.head_dim) return "v is as wide as k";
  for (int64_t extent : {call.batch, call.q_heads, call.q_len, call.kv_len, call.head_dim}) {
    if (extent == 0) return "an extent is 0";
  }
  if (call.bias && call.bias_dtype != call.dtype) return "the bias is of another type";
  return "";
}

at::ScalarType TypeOf(const CallView& call) {
  return call.dtype == DType::kF64 ? at::kDouble : at::kFloat;
}

at::Tensor Wrap(const TensorView& view, at::ScalarType type) {
  return at::from_blob(view.data, view.shape, view.strides, at::TensorOptions(type));
}

Leaves LeavesOf(const CallView& call) {
  const at::ScalarType type = TypeOf(call);
  Leaves leaves{Wrap(call.q, type), Wrap(call.k, type), Wrap(call.v, type), {}};
  if (call.bias) leaves.bias = Wrap(*call.bias, type);
  return leaves;
}

at::Tensor ScaledQuery(const CallView& call, const at::Tensor& q) {
  const double root = std::sqrt(static_cast<double>(call.head_dim));
  if (call.scale == 1 / root) return q;
  return q.to(at::kDouble).mul(call.scale * root).to(TypeOf(call));
}

void Store(const at::Tensor& result, const TensorView& output) {
  Wrap(output, result.scalar_type()).copy_(result);
}

namespace {

// An undefined gradient is PyTorch's word for that of a tensor which has no part in the result: 0.
void StoreGradient(const at::Tensor& gradient, const TensorView& output, at::ScalarType type) {
  if (gradient.defined()) return Store(gradient, output);
  Wrap(output, type).zero_();
}

}  // namespace

void StoreGradients(const at::Tensor& out, const Leaves& leaves, const CallView& call) {
  const GradientsView& targets = *call.gradients;
  const at::ScalarType type = out.scalar_type();
  torch::autograd::variable_list inputs{leaves.q, leaves.k, leaves.v};
  if (targets.dbias) inputs.push_back(leaves.bias);
  const auto gradients = torch::autograd::grad({out}, inputs, {Wrap(targets.dout, type)},
                                               /*retain_graph=*/c10::nullopt,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  StoreGradient(gradients[0], targets.dq, type);
  StoreGradient(gradients[1], targets.dk, type);
  StoreGradient(gradients[2], targets.dv, type);
  if (!targets.dbias) return;
  // The leaf is what the bias broadcasts to, the call's gradient that of the bias.
  const at::Tensor& full = gradients[3];
  StoreGradient(full.defined() ? at::sum_to(full, targets.dbias->shape) : full, *targets.dbias,
                type);
}

}  // namespace attest::torch_adapter
