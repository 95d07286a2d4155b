# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""ONNX Runtime: its three attention operators, and layers with constant weights, which it packs.
Inputs and outputs are bound, so that no call copies them."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from worker import Unsupported


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


def forms(kind):
    return {"attention": [MHA, GQA, STANDARD], "layer": ["Attention, MatMul"]}.get(kind, ["Gemm"])


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def session(nodes, inputs, outputs, constants):
    """Inputs by name, bound. Outputs: shapes by name; None where it does not matter."""
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
    for name in outputs:
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


def prepare(kind, form, sizes, read, threads):
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
