# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""PyTorch: scaled_dot_product_attention (its flash kernel on CPUs), flex_attention compiled, and Linear
layers around it, eager and compiled with frozen weights."""

import torch
import torch.nn.functional as F
from torch import nn
from workloads import CACHED, decode_shapes, lengths


def start(threads):
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.set_grad_enabled(False)
    import torch._inductor.config as inductor

    inductor.freezing = True
    inductor.compile_threads = 1


def version():
    return f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"


def forms(kind):
    if kind == "attention":
        return ["SDPA", "flex_attention compiled"]
    if kind == "decode":
        return ["SDPA"]
    if kind in ("grouped", "paged", "ragged"):
        return ["SDPA", "SDPA, heads expanded ahead", "SDPA, heads of a group as rows"]
    return ["eager", "compiled, frozen"]


class Layer(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(o.transpose(1, 2).reshape(b, t, d))


def set_linear(linear, w, b):
    """w is (in, out), as the files have it."""
    linear.weight = nn.Parameter(torch.from_numpy(w).t().contiguous(), requires_grad=False)
    linear.bias = nn.Parameter(torch.from_numpy(b), requires_grad=False)


def sdpa(q, k, v):
    grouped = q.shape[1] != k.shape[1]
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)


def decode(form, q, k, v, lengths):
    """A call for each length: PyTorch knows no lengths. `q` is one row, which sees all of them."""
    group = q.shape[1] // k.shape[1]
    enable_gqa = form == "SDPA" and group > 1
    if "ahead" in form:
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    if "rows" in form:
        q = q.view(q.shape[0], k.shape[1], group, -1)
    parts = [(q, k, v)]
    if len(set(lengths)) > 1:
        parts = [(q[n:n + 1], k[n:n + 1, :, :s], v[n:n + 1, :, :s]) for n, s in enumerate(lengths)]

    def call():
        return [F.scaled_dot_product_attention(*part, enable_gqa=enable_gqa) for part in parts]

    return call, lambda: torch.cat(call()).numpy()


def flex(q, k, v):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    t, grouped = q.shape[2], q.shape[1] != k.shape[1]
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, t, t, device="cpu")
    attend = torch.compile(
        lambda q, k, v: flex_attention(q, k, v, block_mask=mask, enable_gqa=grouped), dynamic=False)
    return lambda: attend(q, k, v)


def prepare(kind, form, sizes, read, threads):
    torch._dynamo.reset()
    if kind in CACHED:
        shapes = decode_shapes(sizes)
        q, k, v = (torch.from_numpy(read(name, *shape)) for name, shape in shapes.items())
        return decode(form, q, k, v, lengths(kind, sizes))
    if kind == "attention":
        b, h, kv, t, d = sizes
        shapes = dict(q=(b, h, t, d), k=(b, kv, t, d), v=(b, kv, t, d))
        q, k, v = (torch.from_numpy(read(name, *shape)) for name, shape in shapes.items())
        call = sdpa(q, k, v) if form == "SDPA" else flex(q, k, v)
        return call, lambda: call().numpy()
    if kind == "layer":
        b, t, d, heads = sizes
        module = Layer(d, heads)
        set_linear(module.qkv, read("w_qkv", d, 3 * d), read("b_qkv", 3 * d))
        set_linear(module.out, read("w_out", d, d), read("b_out", d))
        x = torch.from_numpy(read("x", b, t, d))
    else:
        rows, inputs, outputs = sizes
        module = nn.Linear(inputs, outputs)
        set_linear(module, read("w", inputs, outputs), read("b", outputs))
        x = torch.from_numpy(read("x", rows, inputs))
    module.eval()
    if form != "eager":
        module = torch.compile(module, dynamic=False)

    def call():
        return module(x)

    return call, lambda: call().numpy()
