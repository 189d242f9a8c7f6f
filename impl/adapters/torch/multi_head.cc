#include "impl/adapters/torch/multi_head.h"

#include <ATen/ops/_native_multi_head_attention.h>
#include <torch/nn/functional/activation.h>

#include <algorithm>
#include <utility>

#include "impl/adapters/torch/tensors.h"

namespace attest::torch_adapter {
namespace {

// The head of the call among the module's heads of one batch item.
constexpr int64_t kRealHead = 1;
constexpr int64_t kHeads = 2;      // of MultiHead
constexpr int64_t kFastHeads = 4;  // of MultiHeadFast: its input has room for q, k, v and zeros

// [batch, heads, length, dim] as [length, batch * heads, kHeads * dim], zero beside the real head.
at::Tensor LengthFirst(const at::Tensor& tensor) {
  const int64_t dim = tensor.size(3);
  const at::Tensor items = tensor.flatten(0, 1).transpose(0, 1);
  at::Tensor embedded = at::zeros({items.size(0), items.size(1), kHeads * dim}, tensor.options());
  embedded.narrow(2, kRealHead * dim, dim).copy_(items);
  return embedded;
}

// True where key_padding_mask hides: [batch * heads, length] of keys at or beyond their length.
at::Tensor PaddingMask(const CallView& call, int64_t length) {
  at::Tensor mask = at::zeros({call.batch, call.q_heads, length}, at::kBool);
  for (int64_t b = 0; b < call.batch; ++b) {
    const int64_t keys = std::min(call.KeyLength(b), call.kv_len);
    mask.select(0, b).narrow(1, keys, length - keys).fill_(true);
  }
  return mask.flatten(0, 1);
}

// A mask that all batch items and heads share has the form (L, S), any other (N * num_heads, L, S).
at::Tensor AttentionMask(const at::Tensor& mask) {
  const auto is_shared = [&](int64_t axis) {
    return mask.size(axis) == 1 || mask.stride(axis) == 0;
  };
  if (is_shared(0) && is_shared(1)) return mask[0][0];
  const at::Tensor items = mask.flatten(0, 1);
  at::Tensor of_heads =
      at::zeros({items.size(0), kHeads, items.size(1), items.size(2)}, mask.options());
  of_heads.select(1, kRealHead).copy_(items);
  return of_heads.flatten(0, 1);
}

// [batch * heads, rows, columns] as an output of the call.
at::Tensor Items(const at::Tensor& items, const CallView& call) {
  return items.unflatten(0, {call.batch, call.q_heads});
}

// q, k and v side by side in one input, [batch * heads, length, kFastHeads * dim], and the projection that
// brings each to its head: of its three square parts number n takes the lanes of part n.
std::pair<at::Tensor, at::Tensor> AllInOne(const CallView& call, const Leaves& leaves,
                                           int64_t length) {
  const auto options = at::TensorOptions(TypeOf(call));
  const int64_t dim = call.head_dim, embed_dim = kFastHeads * dim;
  at::Tensor input = at::zeros({call.batch * call.q_heads, length, embed_dim}, options);
  at::Tensor projection = at::zeros({3 * embed_dim, embed_dim}, options);
  const at::Tensor parts[] = {ScaledQuery(call, leaves.q), leaves.k, leaves.v};
  for (int64_t n = 0; n < 3; ++n) {
    const at::Tensor items = parts[n].flatten(0, 1);
    input.narrow(2, n * dim, dim).narrow(1, 0, items.size(1)).copy_(items);
    projection.narrow(0, n * embed_dim + kRealHead * dim, dim)
        .narrow(1, n * dim, dim)
        .copy_(at::eye(dim, options));
  }
  return {input, projection};
}

}  // namespace

tl::expected<Results, CallError> MultiHead(const CallView& call, const Leaves& leaves) {
  if (call.causal || (call.mask && call.bias)) {
    return tl::unexpected(
        CallError{ATTEST_UNSUPPORTED, "there is one attn_mask, and no causal flag"});
  }
  const at::ScalarType type = TypeOf(call);
  const int64_t embed_dim = kHeads * call.head_dim;
  const at::Tensor identity = at::eye(embed_dim, at::TensorOptions(type));
  torch::nn::functional::MultiheadAttentionForwardFuncOptions options(
      embed_dim, kHeads, /*in_proj_weight=*/identity.repeat({3, 1}),
      /*in_proj_bias=*/at::zeros({3 * embed_dim}, at::TensorOptions(type)), /*bias_k=*/{},
      /*bias_v=*/{}, /*add_zero_attn=*/false, /*dropout_p=*/0, /*out_proj_weight=*/identity,
      /*out_proj_bias=*/at::zeros({embed_dim}, at::TensorOptions(type)));
  options.training(false).need_weights(call.weights.has_value()).average_attn_weights(false);
  if (call.key_lengths) options.key_padding_mask(PaddingMask(call, call.kv_len));
  if (call.mask) options.attn_mask(AttentionMask(Wrap(*call.mask, at::kBool)));
  if (call.bias) options.attn_mask(AttentionMask(leaves.bias));
  const auto [out, weights] = torch::nn::functional::multi_head_attention_forward(
      LengthFirst(ScaledQuery(call, leaves.q)), LengthFirst(leaves.k), LengthFirst(leaves.v),
      options);
  const at::Tensor real = out.narrow(2, kRealHead * call.head_dim, call.head_dim);
  Results results{Items(real.transpose(0, 1), call), {}};
  if (call.weights) results.weights = Items(weights.select(1, kRealHead), call);
  return results;
}

tl::expected<Results, CallError> MultiHeadFast(const CallView& call, const Leaves& leaves) {
  if (call.causal || call.mask || call.bias) {
    return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "this path takes no mask but padding"});
  }
  const auto options = at::TensorOptions(TypeOf(call));
  const int64_t dim = call.head_dim, embed_dim = kFastHeads * dim;
  const int64_t length = std::max(call.q_len, call.kv_len);
  const auto [input, take_apart] = AllInOne(call, leaves, length);
  c10::optional<at::Tensor> padding;
  if (call.key_lengths || length > call.kv_len) padding = PaddingMask(call, length);
  const auto [out, weights] = at::_native_multi_head_attention(
      input, input, input, embed_dim, kFastHeads, take_apart, at::zeros({3 * embed_dim}, options),
      at::eye(embed_dim, options), at::zeros({embed_dim}, options), padding,
      /*need_weights=*/call.weights.has_value(), /*average_attn_weights=*/false,
      /*mask_type=*/padding ? c10::optional<int64_t>(1) : c10::nullopt);
  Results results{Items(out.narrow(1, 0, call.q_len).narrow(2, kRealHead * dim, dim), call), {}};
  if (call.weights) {
    const at::Tensor real = weights.select(1, kRealHead);
    results.weights = Items(real.narrow(1, 0, call.q_len).narrow(2, 0, call.kv_len), call);
  }
  return results;
}

}  // namespace attest::torch_adapter
