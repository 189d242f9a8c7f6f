"""Attention and its backward pass in numpy, as a plug-in: `attest check python:impl/abi/example/backward.py`."""

import numpy as np

CONTRACT = {
    "contract": "attest-1",
    "dtypes": ["f32", "f64"],
    "features": ["causal", "key_lengths", "mask", "bias", "mask_broadcast", "gqa", "value_dim", "sinks"],
    "backward": ["causal", "key_lengths", "mask", "bias", "mask_broadcast", "gqa", "value_dim", "sinks", "dbias",
                 "dsink"],
    "causal_offset": ["zero"],
    "bits_invariant": ["rerun"],
    "poison_safe": [],
}


def scores_of(q, k, scale, causal, key_lengths, mask, bias):
    """[batch, q_heads, q_len, kv_len], -inf where a key is hidden."""
    scores = (q @ np.swapaxes(k, 2, 3)) * q.dtype.type(scale)
    rows, keys = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])
    visible = keys <= rows if causal else np.ones((1, 1), bool)
    if key_lengths is not None:
        visible = visible & (keys < key_lengths[:, None, None, None])
    if mask is not None:
        visible = visible & mask
    if bias is not None:  # -inf hides a score that has overflowed, too
        visible, scores = visible & (bias != -np.inf), scores + bias
    return np.where(visible, scores, -np.inf)


def repeated(k, v, q):
    """A copy of each kv head for each of its query heads."""
    group = q.shape[1] // k.shape[1]
    return np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)


def attention(q, k, v, *, scale, causal=False, key_lengths=None, mask=None, bias=None, sinks=None, want_lse=False):
    k, v = repeated(k, v, q)
    sinks = np.full((k.shape[1], 1, 1), -np.inf, q.dtype) if sinks is None else sinks[:, None, None]
    with np.errstate(all="ignore"):
        scores = scores_of(q, k, scale, causal, key_lengths, mask, bias)
        top = np.maximum(scores.max(axis=3, keepdims=True), sinks)
        top = np.where(top == -np.inf, 0, top)
        weights = np.exp(scores - top)
        total = weights.sum(axis=3, keepdims=True) + np.exp(sinks - top)
        out = (weights @ v) / np.where(total == 0, 1, total)
        lse = np.where(total == 0, -np.inf, top + np.log(total))[..., 0]
    return (out, lse) if want_lse else out


def summed_to(gradient, shape):
    """A bias that broadcasts gathers over what it broadcasts to."""
    axes = tuple(axis for axis, extent in enumerate(shape) if extent == 1)
    return gradient.sum(axis=axes, keepdims=True)


def attention_backward(q, k, v, *, out, lse, dout, scale, causal=False, key_lengths=None, mask=None, bias=None,
                       sinks=None):
    """The gradients of sum(dout * out); out and lse are what attention() gave."""
    batch, kv_heads, kv_len = k.shape[:3]
    k, v = repeated(k, v, q)
    with np.errstate(all="ignore"):
        scores = scores_of(q, k, scale, causal, key_lengths, mask, bias)
        weights = np.where(scores == -np.inf, 0, np.exp(scores - lse[..., None]))
        delta = (dout * out).sum(axis=3, keepdims=True)
        dlogits = weights * (dout @ np.swapaxes(v, 2, 3) - delta)
        dscores = dlogits * q.dtype.type(scale)
        dk, dv = np.swapaxes(dscores, 2, 3) @ q, np.swapaxes(weights, 2, 3) @ dout
    # A kv head gathers over its query heads.
    dk, dv = (d.reshape(batch, kv_heads, -1, kv_len, d.shape[3]).sum(axis=2) for d in (dk, dv))
    gradients = {"dq": dscores @ k, "dk": dk, "dv": dv}
    if bias is not None:
        gradients["dbias"] = summed_to(dlogits, bias.shape)
    if sinks is not None:
        gradients["dsink"] = -(np.exp(sinks[:, None] - lse) * delta[..., 0]).sum(axis=(0, 2))
    return gradients
