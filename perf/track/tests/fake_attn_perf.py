# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""Speaks the protocol of perf/serve.h. Times are made up: the machine is 40 % slower every other half
second, single calls are off by some percent or, now and then, by a factor, and every process has an
offset of its own."""

import json
import random
import sys
import time

FACTS = eval("""@FACTS@""")
names = FACTS.get("workloads", ["P1", "P2"])
if not FACTS.get("serve", True) or "--serve" not in sys.argv:
    sys.exit("attn_perf: unknown argument --serve; see --help")


def answer(value):
    print(json.dumps(value), flush=True)


def call(mine):
    t = 0.005 * FACTS.get("speed", 1.0) * mine * random.lognormvariate(0, 0.02)
    t *= 1.4 if int(2 * time.monotonic()) % 2 else 1.0
    return t * random.uniform(1.5, 3) if random.random() < 0.03 else t


mine = random.lognormvariate(0, 0.005)
model = {"what": "attention, fake", "kind": "attention", "batch": 1, "heads": 1, "kv_heads": 1, "len": 256,
         "head_size": 64, "d_model": 0, "flops": 1e8, "fmas": 5e7, "exps": 1e5, "bytes": 1e6}
answer({"serve": 1, "isa": "generic", "exp": "inline", "sleef": "0", "attn_version": "0", "compiler": "none",
        "flags": "", "hardware_counters": "unavailable: fake", "phases": False,
        "workloads": [{"name": n, **model} for n in names]})
for line in sys.stdin:
    request, *rest = line.split()
    if request == "sample" and rest[0].split("/")[0] in FACTS.get("wrong", []):
        answer({"error": f"{rest[0]}: wrong result"})
    elif request == "sample":
        times = [call(mine) for _ in range(int(rest[1]))]
        time.sleep(FACTS.get("sleep", 0))
        answer({"wall": times, "cpu": times})
    else:
        answer({"gflops": 100.0} if request == "peak" else {"gbs": 10.0})
