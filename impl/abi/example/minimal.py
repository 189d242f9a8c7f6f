"""Attention as a plug-in: `attest check python:minimal.py`."""

import numpy as np

# What the kernel promises; attest/kernel.h lists all keys. What a feature brings comes as a keyword.
CONTRACT = {"contract": "attest-1", "dtypes": ["f32"], "features": ["value_dim"], "lse": "none"}


def attention(q, k, v, *, scale):  # YOUR KERNEL: numpy arrays [batch, heads, len, dim] -> out
    scores = q @ np.swapaxes(k, 2, 3) * np.float32(scale)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    return weights @ v / weights.sum(axis=3, keepdims=True)
