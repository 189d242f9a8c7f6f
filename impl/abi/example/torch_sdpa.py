"""torch's scaled_dot_product_attention on the CPU, as a plug-in: `attest check python:torch_sdpa.py`."""

import torch
import torch.nn.functional as F

TENSORS = "torch"
CONTRACT = {
    "contract": "attest-1",
    "dtypes": ["f32", "f64", "bf16"],
    "features": ["value_dim", "causal"],
    "backward": ["value_dim", "causal"],
    "causal_offset": ["zero"],
    "lse": "none",
    "bits_invariant": ["rerun"],
    "poison_safe": [],
    "numerics": {
        "scale_placement": "storage",
        "bf16": {"accumulate": "bf16", "scores": "bf16", "flush_to_zero": True},
    },
}


def attention(q, k, v, *, scale, causal=False):
    q = q * (scale * q.shape[-1] ** 0.5)  # torch 1.13, which Debian 12 has, takes no scale
    return F._scaled_dot_product_attention(q, k, v, is_causal=causal)[0]


def attention_backward(q, k, v, *, out, dout, scale, causal=False):
    inputs = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    return torch.autograd.grad(attention(*inputs, scale=scale, causal=causal), inputs, dout)
