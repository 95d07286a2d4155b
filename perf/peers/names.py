# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The engines by name."""

ATTN = "attn"
TEAM = "team"
CONTIGUOUS = "contiguous"  # attn on a paged case without its pages, to see what they cost
PEERS = {"torch": "PyTorch", "jax": "JAX, Flax", "onnxruntime": "ONNX Runtime",
         "openvino": "OpenVINO", "onednn": "oneDNN"}
TITLES = {ATTN: "attn", TEAM: "attn, single-threaded processes", CONTIGUOUS: "attn, no pages", **PEERS}
