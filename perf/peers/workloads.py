# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""What is measured: sizes, inputs, number of operations, goals. P, L and D are those of attn_perf."""

from dataclasses import dataclass

import numpy as np

CACHED = ("decode", "grouped", "ragged", "paged")
CACHES_HOLD = 32e6  # bytes; with more of them, decode waits for memory
SWEEP_HEADS = 2
SWEEP_SIZES = (32, 64, 128)
SWEEP_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Goal:
    """Lower bounds, one thread. `share` is of the peak of AVX-512, 0.05 less of that of a narrower set; or
    of what the same threads read from memory, on any number of them."""

    share: float = 0
    ratio: float = 0
    rivals: tuple = ()  # engines that the ratio is against; all when empty
    microseconds: float = 0  # upper bound of a call
    contiguous: float = 0  # ratio to the same without pages


def lengths(kind, sizes):
    """Keys of each sequence of a CACHED case, as attn_perf spreads them."""
    b, keys = sizes[0], sizes[3]
    least = sizes[5] if kind == "ragged" else keys
    return [least + n * (keys - least) // max(1, b - 1) for n in range(b)]


def decode_shapes(sizes):
    b, h, kv, s, d = sizes[:5]
    return {"q": (b, h, 1, d), "k": (b, kv, s, d), "v": (b, kv, s, d)}


@dataclass(frozen=True)
class Case:
    name: str
    kind: str  # attention, layer, linear, or one of CACHED, which are decode: one query row per sequence
    # attention: batch, heads, kv heads, length, head size; layer: batch, length, d_model, heads;
    # linear: rows, inputs, outputs; CACHED: batch, heads, kv heads, keys, head size; ragged also: least
    # keys of a sequence; paged also: slots of a page
    sizes: tuple
    goal: Goal = Goal()

    @property
    def family(self):
        return "sweep" if self in SWEEP else self.name[0]

    @property
    def panel(self):
        """Where its bars are. What caches hold is small work."""
        return "S" if self.cached and not self.from_memory else self.family

    @property
    def shape(self):
        names = {"attention": "B{} H{}/{} T{} D{}", "layer": "B{} T{} d_model {} H{}",
                 "linear": "{} x {} x {}", "ragged": "B{0} H{1}/{2} S{5}…{3} D{4}",
                 "paged": "B{} H{}/{} S{} D{} pages of {}"}
        return names.get(self.kind, "B{} H{}/{} S{} D{}").format(*self.sizes)

    @property
    def cached(self):
        return self.kind in CACHED

    @property
    def lengths(self):
        return lengths(self.kind, self.sizes)

    @property
    def kv_bytes(self):
        """All keys and values, once."""
        _, _, kv, _, d = self.sizes[:5]
        return 8 * kv * d * sum(self.lengths)

    @property
    def from_memory(self):
        return self.cached and self.kv_bytes > CACHES_HOLD

    @property
    def amount(self):
        """What the share of the machine's limit is about: bytes where memory is the limit."""
        return self.kv_bytes if self.from_memory else self.flops

    @property
    def flops(self):
        """Multiplications and additions of one call, those of visible pairs only."""
        if self.cached:
            return 4.0 * self.sizes[1] * self.sizes[4] * sum(self.lengths)
        if self.kind == "attention":
            b, h, _, t, d = self.sizes
            return 2.0 * b * h * d * t * (t + 1)
        if self.kind == "layer":
            b, t, d, _ = self.sizes
            return 8.0 * b * t * d * d + 2.0 * b * d * t * (t + 1)
        rows, inputs, outputs = self.sizes
        return 2.0 * rows * inputs * outputs


LAYER_RIVALS = ("torch", "jax")
CASES = [
    Case("P1", "attention", (8, 4, 4, 256, 32), Goal(0.60, 2.5)),
    Case("P2", "attention", (1, 12, 12, 1024, 64), Goal(0.80, 2.0)),
    Case("P3", "attention", (1, 8, 8, 2048, 128), Goal(0.88, 1.35)),
    Case("P4", "attention", (1, 4, 4, 8192, 64), Goal(0.86, 1.3)),
    Case("P5", "attention", (1, 32, 8, 1024, 128), Goal(0.86, 1.65)),
    Case("L1", "layer", (8, 256, 128, 4), Goal(0.65, 1.7, LAYER_RIVALS)),
    Case("L2", "layer", (1, 1024, 128, 4), Goal(0.75, 1.7, LAYER_RIVALS)),
    Case("L3", "layer", (1, 1024, 768, 12), Goal(0.84, 1.35, LAYER_RIVALS)),
    Case("L4", "layer", (1, 512, 4096, 32), Goal(0.88, 1.0, LAYER_RIVALS)),
    Case("G1", "linear", (1024, 1024, 1024), Goal(0, 1.0, ("onednn",))),
    Case("G2", "linear", (8, 1024, 3072), Goal(0, 1.0, ("onednn",))),
    Case("G3", "linear", (1, 1024, 3072), Goal(0, 1.0, ("onednn",))),
    Case("D1", "decode", (1, 32, 32, 8192, 128), Goal(0.92)),
    Case("D2", "grouped", (1, 32, 8, 16384, 128), Goal(0.92, 2.8)),
    Case("D4", "ragged", (16, 9, 3, 4096, 64, 16), Goal(0, 2.0, ("torch",))),
    Case("D5", "paged", (1, 32, 8, 16384, 128, 16), Goal(contiguous=0.95)),
    Case("D3S64", "decode", (1, 4, 4, 64, 32), Goal(0, 2.0)),
    Case("D3", "decode", (1, 4, 4, 256, 32), Goal(0, 2.0)),
    Case("D3S1024", "decode", (1, 4, 4, 1024, 32), Goal(0, 2.0)),
    Case("S1", "layer", (1, 16, 128, 4), Goal(0, 4.0, LAYER_RIVALS)),
    Case("S0", "attention", (1, 1, 1, 1, 8), Goal(microseconds=1.0)),
]
SWEEP = [Case(f"D{d}T{t}", "attention", (1, SWEEP_HEADS, SWEEP_HEADS, t, d))
         for d in SWEEP_SIZES for t in SWEEP_LENGTHS]


def inputs(case, seed=2026):
    """Arrays by file name. Kernels are (in, out), of variance 1/in as initialisers make them."""
    random = np.random.default_rng([seed, *case.sizes])

    def draw(*shape, scale=1.0):
        return random.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    if case.cached:
        return {name: draw(*shape) for name, shape in decode_shapes(case.sizes).items()}
    if case.kind == "attention":
        b, h, kv, t, d = case.sizes
        return {"q": draw(b, h, t, d), "k": draw(b, kv, t, d), "v": draw(b, kv, t, d)}
    if case.kind == "layer":
        b, t, d, _ = case.sizes
        return {"x": draw(b, t, d), "w_qkv": draw(d, 3 * d, scale=d**-0.5),
                "b_qkv": draw(3 * d, scale=0.1), "w_out": draw(d, d, scale=d**-0.5),
                "b_out": draw(d, scale=0.1)}
    rows, n, m = case.sizes
    return {"x": draw(rows, n), "w": draw(n, m, scale=n**-0.5), "b": draw(m, scale=0.1)}


def choose(names):
    """Cases whose name begins with one of `names`; `sweep` is the sweep. All when there are none."""
    everything = CASES + SWEEP
    if not names:
        return everything
    chosen = []
    for name in names:
        found = SWEEP if name == "sweep" else [c for c in CASES if c.name.startswith(name)]
        found = found or [c for c in SWEEP if c.name == name]
        if not found:
            known = ", ".join(c.name for c in CASES)
            raise SystemExit(f"compare: no workload is named {name}; there are {known}, sweep")
        chosen += [case for case in found if case not in chosen]
    return chosen
