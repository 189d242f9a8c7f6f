// nn.MultiheadAttention of PyTorch 1.13 as plain attention, for the files of this folder. The module puts a
// linear projection before and after the attention; with identity matrices only the attention is left.
// A projection multiplies by zeros, too, so that a NaN of one head would reach the others: each head of
// the call is therefore a batch item of the module's, beside a head of zeros.
#ifndef ATTEST_ADAPTERS_TORCH_MULTI_HEAD_H_
#define ATTEST_ADAPTERS_TORCH_MULTI_HEAD_H_

#include <tl/expected.hpp>

#include "impl/abi/call_view.h"
#include "impl/adapters/torch/tensors.h"

namespace attest::torch_adapter {

// The documentation of torch.nn.MultiheadAttention, PyTorch 1.13, to which torch/nn/modules/activation.h
// refers for the C++ module's exact behaviour: attn_mask is (L, S) or (N * num_heads, L, S), boolean (True
// hides) or added to the scores; key_padding_mask is (N, S), True hides, and goes with either; the
// weights are given a head with average_attn_weights off. Nothing is said of rows without a key, of NaN
// and infinities, of bits, or of the sums of 16-bit types. Its backward pass is autograd's, to
// which a boolean mask comes as an additive one: the fault T1 of properties/FINDINGS.md would hide all else.
inline constexpr const char* kMultiHeadContract = R"({
  "mask_true_means": "hide",
  "empty_row": "unspecified",
  "lse": "none",
  "features": ["mask", "bias", "mask_ranks", "key_lengths", "weights"],
  "backward": ["bias", "mask_ranks", "key_lengths", "dbias"],
  "dtypes": ["f32", "f64"],
  "layouts": ["bhsd", "bshd"],
  "strides": "any",
  "options": {"variant": ["sdpa", "mha", "mha_fast"]}
})";
tl::expected<Results, CallError> MultiHead(const CallView& call, const Leaves& leaves);

// The optimised path of the same module: self-attention only, batch first, at most one mask, and of
// those only key_padding_mask takes it. q, k and v are three parts of the one input, which the projection
// takes apart; where they differ in length the shorter ends in zeros, as padding. That makes every call
// a square, which the limits keep small. It has no backward pass.
inline constexpr const char* kMultiHeadFastContract = R"({
  "empty_row": "unspecified",
  "lse": "none",
  "features": ["key_lengths", "weights"],
  "dtypes": ["f32", "f64"],
  "layouts": ["bhsd", "bshd"],
  "strides": "any",
  "limits": {"max_q_len": 512, "max_kv_len": 512},
  "options": {"variant": ["sdpa", "mha", "mha_fast"]}
})";
tl::expected<Results, CallError> MultiHeadFast(const CallView& call, const Leaves& leaves);

}  // namespace attest::torch_adapter

#endif  // ATTEST_ADAPTERS_TORCH_MULTI_HEAD_H_
