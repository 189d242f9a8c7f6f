#include "impl/adapters/torch/tensors.h"

#include <ATen/ops/from_blob.h>

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

at::Tensor ScaledQuery(const CallView& call) {
  const at::Tensor q = Wrap(call.q, TypeOf(call));
  const double root = std::sqrt(static_cast<double>(call.head_dim));
  if (call.scale == 1 / root) return q;
  return q.to(at::kDouble).mul(call.scale * root).to(TypeOf(call));
}

void Store(const at::Tensor& result, const TensorView& output) {
  Wrap(output, result.scalar_type()).copy_(result);
}

}  // namespace attest::torch_adapter
