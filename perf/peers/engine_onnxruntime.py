# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""ONNX Runtime: its three attention operators, and layers with constant weights, which it packs.
Inputs and outputs are bound, so that no call copies them; a cache that an operator extends is bound to both."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from worker import Unsupported
from workloads import CACHED, decode_shapes, lengths


def start(threads):
    global options
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3


def version():
    return onnxruntime.__version__


MHA = "MultiHeadAttention (B,T,H,D)"
GQA = "GroupQueryAttention (B,T,H,D)"
STANDARD = "Attention-23"
CACHED_MHA, CACHED_GQA = "MultiHeadAttention", "GroupQueryAttention"  # (B,H,S,D), as caches are


def forms(kind):
    known = {"attention": [MHA, GQA, STANDARD], "layer": ["Attention, MatMul"], "linear": ["Gemm"],
             "decode": [CACHED_MHA, CACHED_GQA, STANDARD]}
    return known.get(kind, [CACHED_GQA, STANDARD])


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def session(nodes, inputs, outputs, constants, in_place=()):
    """Inputs by name, bound. Outputs: shapes by name. `in_place`: pairs of an input and the output that is
    written into it."""
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "peer",
        [value(name, types[array.dtype], array.shape) for name, array in inputs.items()],
        [value(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    ready = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = ready.io_binding()
    kept = {name: onnxruntime.OrtValue.ortvalue_from_numpy(a) for name, a in inputs.items()}
    for name, bound in kept.items():
        binding.bind_ortvalue_input(name, bound)
    written = {output: kept[name] for name, output in in_place}
    for name in outputs:
        if name in written:
            binding.bind_ortvalue_output(name, written[name])
        else:
            binding.bind_output(name, "cpu")

    def call(keep=kept):
        ready.run_with_iobinding(binding)

    return call, lambda: binding.get_outputs()[0].numpy()


def attention(form, b, h, kv, t, d, q, k, v):
    if form == STANDARD:
        return session([node("Attention", "q k v", "y", is_causal=1)],
                       dict(q=q, k=k, v=v), dict(y=q.shape), {})
    rows = {name: np.ascontiguousarray(a.transpose(0, 2, 1, 3)).reshape(b, t, -1)
            for name, a in dict(q=q, k=k, v=v).items()}
    outputs = dict(y=(b, t, h * d))
    if form == MHA:
        if h != kv:
            raise Unsupported("MultiHeadAttention has no grouped heads")
        made = node("MultiHeadAttention", "q k v", "y", domain="com.microsoft", num_heads=h,
                    unidirectional=1)
        return session([made], rows, outputs, {})
    # It also writes the cache, which nobody can switch off.
    nothing = np.zeros((b, kv, 0, d), np.float32)
    rows.update(past_k=nothing, past_v=nothing, last=np.full([b], t - 1, np.int32),
                total=np.array([t], np.int32))
    outputs.update(cache_k=(b, kv, t, d), cache_v=(b, kv, t, d))
    made = node("GroupQueryAttention", "q k v past_k past_v last total", "y cache_k cache_v",
                domain="com.microsoft", num_heads=h, kv_num_heads=kv)
    return session([made], rows, outputs, {})


def decode(form, kind, sizes, q, k, v):
    """One query row of each sequence, and a cache of all its keys."""
    b, h, kv, s, d = sizes[:5]
    last = np.array(lengths(kind, sizes)) - 1
    if form == STANDARD:
        inputs, names = dict(q=q, k=k, v=v), "q k v"
        if kind == "ragged":
            seen = np.arange(s) <= last[:, None]
            inputs["mask"] = np.where(seen, 0, -np.inf).astype(np.float32)[:, None, None, :]
            names += " mask"
        return session([node("Attention", names, "y")], inputs, dict(y=q.shape), {})
    rows, outputs = q.reshape(b, 1, h * d), dict(y=(b, 1, h * d))
    if form == CACHED_MHA:
        made = node("MultiHeadAttention", "q k v", "y", domain="com.microsoft", num_heads=h)
        return session([made], dict(q=rows, k=k, v=v), outputs, {})
    # The operator puts the last key and value, which it is given beside the cache, into their slots.
    new_k, new_v = (np.stack([x[n, :, i] for n, i in enumerate(last)]).reshape(b, 1, kv * d) for x in (k, v))
    inputs = dict(q=rows, k=new_k, v=new_v, past_k=k, past_v=v, last=last.astype(np.int32),
                  total=np.array([s], np.int32))
    outputs.update(cache_k=k.shape, cache_v=v.shape)
    made = node("GroupQueryAttention", "q k v past_k past_v last total", "y cache_k cache_v",
                domain="com.microsoft", num_heads=h, kv_num_heads=kv)
    return session([made], inputs, outputs, {}, [("past_k", "cache_k"), ("past_v", "cache_v")])


def prepare(kind, form, sizes, read, threads):
    if kind in CACHED:
        arrays = [read(name, *shape) for name, shape in decode_shapes(sizes).items()]
        return decode(form, kind, sizes, *arrays)
    if kind == "attention":
        b, h, kv, t, d = sizes
        arrays = read("q", b, h, t, d), read("k", b, kv, t, d), read("v", b, kv, t, d)
        return attention(form, *sizes, *arrays)
    if kind == "layer":
        b, t, d, heads = sizes
        nodes = [
            node("Attention", "x w_qkv b_qkv", "o", domain="com.microsoft", num_heads=heads,
                 unidirectional=1),
            node("MatMul", "o w_out", "p"),
            node("Add", "p b_out", "y"),
        ]
        constants = dict(w_qkv=read("w_qkv", d, 3 * d), b_qkv=read("b_qkv", 3 * d),
                         w_out=read("w_out", d, d), b_out=read("b_out", d))
        return session(nodes, dict(x=read("x", b, t, d)), dict(y=(b, t, d)), constants)
    rows, inputs, outputs = sizes
    constants = dict(w=read("w", inputs, outputs), b=read("b", outputs))
    return session([node("Gemm", "x w b", "y")], dict(x=read("x", rows, inputs)),
                   dict(y=(rows, outputs)), constants)
