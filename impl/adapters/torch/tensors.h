// Between a call's memory and PyTorch's tensors, for the files of this folder. PyTorch's functions of
// 1.13 have no scale argument and multiply by 1 / sqrt(head_dim), so another scale goes into q.
#ifndef ATTEST_ADAPTERS_TORCH_TENSORS_H_
#define ATTEST_ADAPTERS_TORCH_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <string>

#include "impl/abi/call_view.h"

namespace attest::torch_adapter {

// Why no variant takes the call, else empty: other types than f32 and f64, grouped heads, a value_dim of
// its own, an extent of 0, a bias of another type.
std::string WhyNotOffered(const CallView& call);

// kFloat or kDouble.
at::ScalarType TypeOf(const CallView& call);

// The memory of a call's tensor as [batch, heads, length, dim], not copied. It must outlive the result.
at::Tensor Wrap(const TensorView& view, at::ScalarType type);

// What a call is a function of, not copied: of the two passes the backward has them require a gradient.
struct Leaves {
  at::Tensor q, k, v;
  at::Tensor bias;  // as [batch, q_heads, q_len, kv_len]; undefined without one
};
Leaves LeavesOf(const CallView& call);

// What a variant computes: out, and the weights where the call asks for them, as the call has them.
struct Results {
  at::Tensor out, weights;
};

// q times scale * sqrt(head_dim), rounded once; q itself, not copied, where that is 1.
at::Tensor ScaledQuery(const CallView& call, const at::Tensor& q);

// Copies a result of the same shape into an output of the call.
void Store(const at::Tensor& result, const TensorView& output);

// The gradients of sum(dout * out) by autograd, `out` being a result of the leaves: into dq, dk and dv, and
// dbias where the call asks for it.
void StoreGradients(const at::Tensor& out, const Leaves& leaves, const CallView& call);

}  // namespace attest::torch_adapter

#endif  // ATTEST_ADAPTERS_TORCH_TENSORS_H_
