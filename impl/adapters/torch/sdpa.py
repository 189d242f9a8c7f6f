"""PyTorch's attention from Python: `attest check python:impl/adapters/torch/sdpa.py` (ci/setup --with torch).

The function of 1.13 is private and documented in its docstring; torch:sdpa calls the same from C++, and
impl/adapters/torch/plugin.cc says what of the contract is documented where. It has no scale argument and
multiplies by 1 / sqrt(head_dim), so another scale goes into q, rounded once.
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
    "dtypes": ["f32", "f64"],
    "layouts": ["bhsd", "bshd"],
    "strides": "any",
}


@torch.no_grad()
def attention(q, k, v, *, scale, mask=None, causal=False, want_weights=False):
    root = math.sqrt(q.shape[3])
    if scale != 1 / root:
        q = (q.double() * (scale * root)).to(q.dtype)
    out, weights = _scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=0.0, need_attn_weights=want_weights, is_causal=causal)
    return (out, weights) if want_weights else out
