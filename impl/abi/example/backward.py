"""Attention and its backward pass in numpy, as a plug-in: `attest check python:impl/abi/example/backward.py`."""

import numpy as np

CONTRACT = {
    "contract": "attest-1",
    "dtypes": ["f32", "f64"],
    "features": ["causal", "key_lengths", "mask", "gqa", "value_dim"],
    "backward": ["causal", "key_lengths", "mask", "gqa", "value_dim"],
    "causal_offset": ["zero"],
    "bits_invariant": ["rerun"],
    "poison_safe": [],
}


def scores_of(q, k, scale, causal, key_lengths, mask):
    """[batch, q_heads, q_len, kv_len], -inf where a key is hidden."""
    scores = (q @ np.swapaxes(k, 2, 3)) * q.dtype.type(scale)
    rows, keys = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])
    visible = keys <= rows if causal else np.ones((1, 1), bool)
    if key_lengths is not None:
        visible = visible & (keys < key_lengths[:, None, None, None])
    if mask is not None:
        visible = visible & mask
    return np.where(visible, scores, -np.inf)


def repeated(k, v, q):
    """A copy of each kv head for each of its query heads."""
    group = q.shape[1] // k.shape[1]
    return np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)


def attention(q, k, v, *, scale, causal=False, key_lengths=None, mask=None, want_lse=False):
    k, v = repeated(k, v, q)
    with np.errstate(all="ignore"):
        scores = scores_of(q, k, scale, causal, key_lengths, mask)
        top = scores.max(axis=3, keepdims=True)
        weights = np.exp(scores - np.where(top == -np.inf, 0, top))
        total = weights.sum(axis=3, keepdims=True)
        out = (weights @ v) / np.where(total == 0, 1, total)
        lse = np.where(total == 0, -np.inf, top + np.log(total))[..., 0]
    return (out, lse) if want_lse else out


def attention_backward(q, k, v, *, out, lse, dout, scale, causal=False, key_lengths=None, mask=None):
    """The gradients of sum(dout * out) by q, k and v; out and lse are what attention() gave."""
    batch, kv_heads, kv_len = k.shape[:3]
    k, v = repeated(k, v, q)
    with np.errstate(all="ignore"):
        scores = scores_of(q, k, scale, causal, key_lengths, mask)
        weights = np.where(scores == -np.inf, 0, np.exp(scores - lse[..., None]))
        delta = (dout * out).sum(axis=3, keepdims=True)
        dscores = weights * (dout @ np.swapaxes(v, 2, 3) - delta) * q.dtype.type(scale)
        dk, dv = np.swapaxes(dscores, 2, 3) @ q, np.swapaxes(weights, 2, 3) @ dout
    # A kv head gathers over its query heads.
    dk, dv = (d.reshape(batch, kv_heads, -1, kv_len, d.shape[3]).sum(axis=2) for d in (dk, dv))
    return dscores @ k, dk, dv
