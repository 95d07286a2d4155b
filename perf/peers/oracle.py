# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The truth in float64: for attention on a sample of rows, for a layer on one sequence."""

import math

import numpy as np

SAMPLE_ROWS = 256
# No float32 engine comes near it (they reach 1e-6), and any wrong mask, scale or head goes far beyond.
TOLERANCE = 1e-4


class Wrong(Exception):
    """A result that is not the answer: its time is not worth knowing."""


class Truth:
    """`pick(result)` are the values of a result that `values` are the truth of."""

    def __init__(self, values, pick):
        self.values, self.pick = values, pick

    def errors(self, result):
        """Root mean square and largest absolute error."""
        difference = self.pick(result).astype(np.float64) - self.values
        return float(np.sqrt(np.mean(difference**2))), float(np.max(np.abs(difference)))

    def wrong(self, largest_error):
        """NaN is wrong, too."""
        return not largest_error <= TOLERANCE * max(1.0, float(np.max(np.abs(self.values))))


def softmax(s):
    w = np.exp(s - s.max(axis=-1, keepdims=True))
    return w / w.sum(axis=-1, keepdims=True)


def attention_row(q, k, v):
    """One query, and the keys that it sees."""
    return softmax(k.astype(np.float64) @ q.astype(np.float64) / math.sqrt(len(q))) @ v.astype(np.float64)


def attention(case, arrays):
    b, h, kv, t, _ = case.sizes
    q, k, v = arrays["q"], arrays["k"], arrays["v"]
    random = np.random.default_rng(1)
    count = min(SAMPLE_ROWS, b * h * t)
    chosen = np.unravel_index(random.choice(b * h * t, count, replace=False), (b, h, t))
    rows = [attention_row(q[n, head, i], k[n, head * kv // h, :i + 1], v[n, head * kv // h, :i + 1])
            for n, head, i in zip(*chosen)]
    return Truth(np.array(rows), lambda result: result[chosen])


def decode(case, arrays):
    b, h, kv = case.sizes[:3]
    q, k, v = arrays["q"], arrays["k"], arrays["v"]
    rows = [attention_row(q[n, head, 0], k[n, head * kv // h, :keys], v[n, head * kv // h, :keys])
            for n, keys in zip(range(b), case.lengths) for head in range(h)]
    return Truth(np.array(rows), lambda result: result.reshape(b * h, -1))


def layer(case, arrays):
    """The last sequence, all of it."""
    b, t, d, heads = case.sizes
    double = {name: array.astype(np.float64) for name, array in arrays.items() if name != "x"}
    x = arrays["x"][-1].astype(np.float64)
    qkv = (x @ double["w_qkv"] + double["b_qkv"]).reshape(t, 3, heads, d // heads)
    mixed = np.empty((t, heads, d // heads))
    hidden = np.triu(np.ones((t, t), bool), 1)
    for head in range(heads):
        s = qkv[:, 0, head] @ qkv[:, 1, head].T / math.sqrt(d // heads)
        s[hidden] = -np.inf
        mixed[:, head] = softmax(s) @ qkv[:, 2, head]
    return Truth(mixed.reshape(t, d) @ double["w_out"] + double["b_out"], lambda result: result[-1])


def linear(case, arrays):
    x, w, b = (arrays[name].astype(np.float64) for name in "xwb")
    return Truth(x @ w + b, lambda result: result)


def truth(case, arrays):
    known = {"attention": attention, "layer": layer, "linear": linear}
    return known.get(case.kind, decode)(case, arrays)


def result_shape(case, form):
    """Of the file that a worker writes: the form tells where attention's heads are."""
    if case.cached:  # with one row, the order of heads and rows is no matter
        b, h, _, _, d = case.sizes[:5]
        return b, h, 1, d
    if case.kind == "attention":
        b, h, _, t, d = case.sizes
        return (b, t, h, d) if "(B,T,H,D)" in form else (b, h, t, d)
    if case.kind == "layer":
        return case.sizes[:3]
    return case.sizes[0], case.sizes[2]


def read_result(path, case, form):
    result = np.fromfile(path, np.float32).reshape(result_shape(case, form))
    heads_inside = case.kind == "attention" and "(B,T,H,D)" in form
    return result.transpose(0, 2, 1, 3) if heads_inside else result
