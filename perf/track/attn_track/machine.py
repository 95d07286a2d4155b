# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""What a measurement was taken on. The fingerprint names the kind of machine, not the machine: no
host names, no serial numbers."""

import hashlib
import os
import platform
import re
from pathlib import Path

IDENTITY = ["vendor_id", "cpu family", "model", "model name", "stepping"]
IDENTITY_ARM = ["CPU implementer", "CPU part", "CPU variant", "CPU revision"]


def _cpuinfo():
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _last_cache():
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    found = [int(f.read_text().strip().rstrip("K")) for f in sizes]
    return max(found, default=0)


def describe():
    info = _cpuinfo()
    return {
        "architecture": platform.machine(),
        "cpu": info.get("model name", " ".join(info.get(n, "?") for n in IDENTITY_ARM)),
        "identity": [info.get(n, "") for n in IDENTITY + IDENTITY_ARM],
        "microcode": info.get("microcode", "unknown"),
        "cpus": os.cpu_count(),
        "last_cache_kib": _last_cache(),
        "kernel": platform.release(),
    }


def fingerprint(machine):
    kind = [machine[k] for k in ("architecture", "identity", "cpus", "last_cache_kib")]
    name = re.sub(r"[^a-z0-9]+", "-", machine["cpu"].lower()).strip("-") or "unknown"
    return f"{name}-{machine['cpus']}cpu-{hashlib.sha256(repr(kind).encode()).hexdigest()[:8]}"
