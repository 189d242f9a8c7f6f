"""PyTorch's attention from Python: `attest check python:impl/adapters/torch/sdpa.py` (ci/setup --with torch).

The function of 1.13 is private and documented in its docstring; torch:sdpa calls the same from C++, and
impl/adapters/torch/plugin.cc says what of the contract is documented where. It has no scale argument and
multiplies by 1 / sqrt(head_dim), so another scale goes into q, rounded once. The backward pass is autograd's.
"""

import math

import torch
from torch.nn.functional import _scaled_dot_product_attention

__version__ = torch.__version__
TENSORS = "torch"
CONTRACT = {
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
}


def sdpa(q, k, v, scale, mask, causal, want_weights):
    root = math.sqrt(q.shape[3])
    if scale != 1 / root:
        q = (q.double() * (scale * root)).to(q.dtype)
    return _scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=0.0, need_attn_weights=want_weights, is_causal=causal)


@torch.no_grad()
def attention(q, k, v, *, scale, mask=None, causal=False, want_weights=False):
    out, weights = sdpa(q, k, v, scale, mask, causal, want_weights)
    return (out, weights) if want_weights else out


def attention_backward(q, k, v, *, out, dout, scale, mask=None, causal=False):
    inputs = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    return torch.autograd.grad(sdpa(*inputs, scale, mask, causal, False)[0], inputs, dout)
