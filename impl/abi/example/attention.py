"""Attention in numpy, as a plug-in: `attest check python:impl/abi/example/attention.py`."""

import numpy as np

CONTRACT = {
    "contract": "attest-1",
    "dtypes": ["f32", "f64"],
    "features": ["causal", "key_lengths", "mask", "bias", "mask_with_bias", "gqa", "value_dim", "zero_sizes",
                 "mask_broadcast", "mask_key_broadcast", "mask_ranks"],
    "causal_offset": ["kv_len_minus_q_len"],
    "bits_invariant": ["rerun"],
    "poison_safe": [],
}


def attention(q, k, v, *, scale, causal=False, mask=None, bias=None, key_lengths=None, want_lse=False):
    """q [batch, q_heads, q_len, head_dim], k and v [batch, kv_heads, kv_len, dim] -> out, and the lse if asked for."""
    group = q.shape[1] // max(k.shape[1], 1)
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    with np.errstate(all="ignore"):
        scores = (q @ np.swapaxes(k, 2, 3)) * q.dtype.type(scale)
        if bias is not None:
            scores = scores + bias
        visible = np.ones(scores.shape, bool)
        q_len, kv_len = scores.shape[2:]
        if mask is not None:
            visible &= mask
        if key_lengths is not None:
            visible &= np.arange(kv_len) < key_lengths[:, None, None, None]
        if causal:
            visible &= np.arange(kv_len) <= np.arange(q_len)[:, None] + kv_len - q_len
        scores = np.where(visible, scores, -np.inf)
        top = np.max(scores, axis=3, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(top == -np.inf, 0, top))
        total = weights.sum(axis=3, keepdims=True)
        out = (weights @ v) / np.where(total == 0, 1, total)
        lse = np.where(total == 0, -np.inf, top + np.log(total))[..., 0]
    return (out, lse) if want_lse else out
