"""A language model in numpy: a decoder of two layers, with a cache and a batcher. attest check-model python:model.py:model"""

import numpy as np

VOCAB, MAX_LEN, DIM, HEADS, LAYERS, PAD = 16, 32, 16, 2, 2, 0

CONTRACT = {
    "contract": "attest-model-1", "kind": "decoder", "vocab": VOCAB, "max_len": MAX_LEN, "dtype": "f32",
    "padding": ["left", "right"], "positions": "absolute", "caches": ["contiguous"], "reorder": True,
    "cache_bytes": {"per_token": LAYERS * 2 * DIM * 4}, "batcher": {"pad": PAD},
    "bits_invariant": ["future", "padding_content", "rerun"],
}


class Cache:
    """By layer the keys and values so far, [batch, tokens, DIM], and which of the tokens are no padding."""

    def __init__(self, batch):
        self.keys, self.values = ([np.zeros((batch, 0, DIM), np.float32)] * LAYERS for _ in range(2))
        self.real = np.zeros((batch, 0), bool)


def norm(x):
    return (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + np.float32(1e-5))


def attend(q, k, v, visible):
    """softmax(q k^T / sqrt(d)) v, each [batch, tokens, DIM], by heads."""
    q, k, v = (x.reshape(*x.shape[:2], HEADS, DIM // HEADS).swapaxes(1, 2) for x in (q, k, v))
    scores = np.where(visible[:, None], q @ k.swapaxes(2, 3) / np.float32(np.sqrt(DIM // HEADS)), -np.inf)
    weights = np.exp(scores - scores.max(3, keepdims=True))
    out = weights / weights.sum(3, keepdims=True) @ v
    return out.swapaxes(1, 2).reshape(out.shape[0], -1, DIM)


class model:
    def __init__(self, seed="1"):
        draw = np.random.default_rng(int(seed))
        matrix = lambda *shape: (draw.standard_normal(shape) / np.sqrt(DIM)).astype(np.float32)
        self.tokens, self.positions = matrix(VOCAB, DIM), matrix(MAX_LEN, DIM)
        self.layers = [[matrix(DIM, DIM) for _ in range(6)] for _ in range(LAYERS)]

    def run(self, tokens, real, cache):
        """Appends tokens to the cache, those that are real, and gives the logits at them."""
        past, cache.real = cache.real.shape[1], np.concatenate([cache.real, real], 1)
        place = np.maximum(cache.real.cumsum(1) - 1, 0)[:, past:]  # padding has no position of its own
        order = np.arange(cache.real.shape[1])[None, :] <= past + np.arange(tokens.shape[1])[:, None]
        visible = order & cache.real[:, None, :] | np.eye(tokens.shape[1], len(order[0]), past, dtype=bool)
        x = self.tokens[tokens] + self.positions[place]
        for layer, (wq, wk, wv, wo, up, down) in enumerate(self.layers):
            h = norm(x)
            cache.keys[layer] = np.concatenate([cache.keys[layer], h @ wk], 1)
            cache.values[layer] = np.concatenate([cache.values[layer], h @ wv], 1)
            x = x + attend(h @ wq, cache.keys[layer], cache.values[layer], visible) @ wo
            x = x + np.maximum(norm(x) @ up, 0) @ down
        return norm(x) @ self.tokens.T

    def real(self, tokens, lengths, padding):
        index = np.arange(tokens.shape[1])[None, :]
        return index >= tokens.shape[1] - lengths[:, None] if padding == "left" else index < lengths[:, None]

    def logits(self, tokens, lengths, padding):
        return self.run(tokens, self.real(tokens, lengths, padding), Cache(len(tokens)))

    def open(self, batch, capacity, kind):
        return Cache(batch)

    def step(self, cache, tokens, lengths, padding):
        return self.run(tokens, self.real(tokens, lengths, padding), cache)

    def reorder(self, cache, parents):
        cache.keys, cache.values = ([x[parents] for x in part] for part in (cache.keys, cache.values))
        cache.real = cache.real[parents]

    def bytes(self, cache):
        return sum(x.nbytes for x in cache.keys + cache.values)

    def batch(self, documents, len):
        """A row for each piece of a document; the target of a token is the next of its document."""
        rows = []
        for document in documents:
            for begin in range(0, document.size, len):
                inputs, targets = document[begin:begin + len], document[begin + 1:begin + len + 1]
                fill = lambda x: np.pad(x, (0, len - x.size), constant_values=PAD)
                rows.append((fill(inputs), fill(targets), np.arange(len) < targets.size))
        return [np.stack(part) for part in zip(*rows)]
