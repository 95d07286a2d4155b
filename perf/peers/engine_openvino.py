# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""OpenVINO's CPU plugin: ScaledDotProductAttention, and layers with constant weights."""

import numpy as np
import openvino
from openvino import opset13 as op
from workloads import CACHED, decode_shapes, lengths


def start(threads):
    global core, settings
    core = openvino.Core()
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,  # compare.py has pinned the process
        "PERFORMANCE_HINT": "LATENCY",
    }


def version():
    return openvino.__version__


def forms(kind):
    known = {"layer": ["MatMul, SDPA, MatMul"], "linear": ["MatMul"]}
    return known.get(kind, ["SDPA"])


def constant(*values):
    return op.constant(np.array(values, np.int64))


def repeat_heads(x, b, kv, group, t, d):
    """Unsqueeze, broadcast, reshape: as exported models do it, and the plugin knows it."""
    wide = op.broadcast(op.unsqueeze(x, constant(2)), constant(b, kv, group, t, d))
    return op.reshape(wide, constant(b, kv * group, t, d), False)


def linear(x, w, b):
    return op.add(op.matmul(x, op.constant(w), False, False), op.constant(b))


def layer(x, b, t, d, heads, read):
    qkv = linear(x, read("w_qkv", d, 3 * d), read("b_qkv", 3 * d))
    rows = op.reshape(qkv, constant(b, t, 3, heads, d // heads), False)
    parts = op.split(op.transpose(rows, constant(2, 0, 3, 1, 4)), op.constant(np.int64(0)), 3)
    q, k, v = (op.squeeze(parts.output(i), constant(0)) for i in range(3))
    o = op.scaled_dot_product_attention(q, k, v, causal=True)
    o = op.reshape(op.transpose(o, constant(0, 2, 1, 3)), constant(b, t, d), False)
    return linear(o, read("w_out", d, d), read("b_out", d))


def compiled(result, parameters, arrays):
    model = openvino.Model([op.result(result)], parameters, "peer")
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    for i, array in enumerate(arrays):
        request.set_input_tensor(i, openvino.Tensor(array, shared_memory=True))
    return lambda keep=arrays: request.infer(), lambda: request.get_output_tensor(0).data


def decode(kind, sizes, read):
    b, h, kv, s, d = sizes[:5]
    arrays = [read(name, *shape) for name, shape in decode_shapes(sizes).items()]
    if kind == "ragged":
        seen = np.arange(s) < np.array(lengths(kind, sizes))[:, None]
        arrays.append(np.where(seen, 0, -np.inf).astype(np.float32)[:, None, None, :])
    parameters = [op.parameter(a.shape, np.float32) for a in arrays]
    q, k, v, *mask = parameters
    if h != kv:
        k, v = (repeat_heads(x, b, kv, h // kv, s, d) for x in (k, v))
    return compiled(op.scaled_dot_product_attention(q, k, v, *mask, causal=False), parameters, arrays)


def prepare(kind, form, sizes, read, threads):
    if kind in CACHED:
        return decode(kind, sizes, read)
    if kind == "attention":
        b, h, kv, t, d = sizes
        arrays = [read("q", b, h, t, d), read("k", b, kv, t, d), read("v", b, kv, t, d)]
        q, k, v = parameters = [op.parameter(a.shape, np.float32) for a in arrays]
        if h != kv:
            k, v = (repeat_heads(x, b, kv, h // kv, t, d) for x in (k, v))
        return compiled(op.scaled_dot_product_attention(q, k, v, causal=True), parameters, arrays)
    if kind == "layer":
        b, t, d, heads = sizes
        arrays = [read("x", b, t, d)]
        x = op.parameter(arrays[0].shape, np.float32)
        return compiled(layer(x, b, t, d, heads, read), [x], arrays)
    rows, inputs, outputs = sizes
    arrays = [read("x", rows, inputs)]
    x = op.parameter(arrays[0].shape, np.float32)
    return compiled(linear(x, read("w", inputs, outputs), read("b", outputs)), [x], arrays)
