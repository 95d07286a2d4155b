# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""JAX under jit: attention written out with einsum, jax.nn.dot_product_attention, and a Flax linen
module with either."""

import math
import os

from workloads import CACHED, decode_shapes, lengths


def start(threads):
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["NPROC"] = str(threads)  # XLA's thread pool; its CPUs are pinned by compare.py as well
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = flags + " --xla_cpu_multi_thread_eigen=false"
    global jax, jnp, nn
    import flax.linen as nn
    import jax
    import jax.numpy as jnp


def version():
    import flax

    return f"{jax.__version__}, Flax {flax.__version__}"


def forms(kind):
    if kind == "linear":
        return ["jit"]
    return ["jit, einsum", "jit, dot_product_attention (B,T,H,D)"]


def einsum_attention(q, k, v):
    """(B,H,T,D); q has a group of heads for each of k and v."""
    b, h, t, d = q.shape
    kv = k.shape[1]
    q = q.reshape(b, kv, h // kv, t, d)
    s = jnp.einsum("bngqd,bnkd->bngqk", q, k) * (1 / math.sqrt(d))
    visible = jnp.tril(jnp.ones((t, t), bool))
    w = jax.nn.softmax(jnp.where(visible, s, -jnp.inf), axis=-1)
    return jnp.einsum("bngqk,bnkd->bngqd", w, v).reshape(b, h, t, d)


def dot_product_attention(q, k, v):
    """(B,T,H,D)"""
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def masked_einsum(q, k, v, last):
    """(B,H,1,D), and (B,Hkv,S,D) of which sequence n has `last[n]` keys; all, when that is None."""
    b, h, _, d = q.shape
    kv = k.shape[1]
    q = q.reshape(b, kv, h // kv, d)
    s = jnp.einsum("bngd,bnkd->bngk", q, k) * (1 / math.sqrt(d))
    if last is not None:
        s = jnp.where(jnp.arange(k.shape[2]) < last[:, None, None, None], s, -jnp.inf)
    return jnp.einsum("bngk,bnkd->bngd", jax.nn.softmax(s, axis=-1), v).reshape(b, h, 1, d)


def masked_product(q, k, v, last):
    """The same of (B,1,H,D) and (B,S,Hkv,D)."""
    return jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=last)


def flax_module(d, heads, fused):
    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, t, _ = x.shape
            qkv = nn.Dense(3 * d)(x).reshape(b, t, 3, heads, d // heads)
            q, k, v = (qkv[:, :, i] for i in range(3))
            if fused:
                o = dot_product_attention(q, k, v)
            else:
                o = einsum_attention(*(a.transpose(0, 2, 1, 3) for a in (q, k, v)))
                o = o.transpose(0, 2, 1, 3)
            return nn.Dense(d)(o.reshape(b, t, d))

    return Layer()


def compiled(function, *inputs):
    ready = jax.jit(function).lower(*inputs).compile()

    def call():
        return ready(*inputs).block_until_ready()

    return call, call


def prepare(kind, form, sizes, read, threads):
    fused = "dot_product_attention" in form
    if kind in CACHED:
        arrays = [read(name, *shape) for name, shape in decode_shapes(sizes).items()]
        if fused:
            arrays = [array.transpose(0, 2, 1, 3).copy() for array in arrays]
        last = jnp.asarray(lengths(kind, sizes), jnp.int32) if kind == "ragged" else None
        function = masked_product if fused else masked_einsum
        return compiled(function, *map(jnp.asarray, arrays), last)
    if kind == "attention":
        b, h, kv, t, d = sizes
        shapes = dict(q=(b, h, t, d), k=(b, kv, t, d), v=(b, kv, t, d))
        inputs = [read(name, *shape) for name, shape in shapes.items()]
        if fused:
            inputs = [array.transpose(0, 2, 1, 3).copy() for array in inputs]
        function = dot_product_attention if fused else einsum_attention
        return compiled(function, *map(jnp.asarray, inputs))
    if kind == "layer":
        b, t, d, heads = sizes
        dense = {
            "Dense_0": {"kernel": read("w_qkv", d, 3 * d), "bias": read("b_qkv", 3 * d)},
            "Dense_1": {"kernel": read("w_out", d, d), "bias": read("b_out", d)},
        }
        parameters = jax.tree.map(jnp.asarray, {"params": dense})
        module = flax_module(d, heads, fused)
        return compiled(module.apply, parameters, jnp.asarray(read("x", b, t, d)))
    rows, inputs, outputs = sizes
    arrays = read("x", rows, inputs), read("w", inputs, outputs), read("b", outputs)
    return compiled(lambda x, w, b: x @ w + b, *map(jnp.asarray, arrays))
