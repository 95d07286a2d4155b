# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""What the numbers were measured on."""

import datetime
import os
import platform
import re
import subprocess


def cpu():
    """Model name with family and model number: virtual machines shorten the name."""
    fields = {}
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name") or platform.machine()
    numbers = [f"{key.split()[-1]} {fields[key]}" for key in ("cpu family", "model") if key in fields]
    return name + (f" ({', '.join(numbers)})" if numbers else "")


def today():
    return datetime.date.today().isoformat()


def file_stem():
    words = re.sub(r"\((R|TM)\)|CPU|@.*?GHz|Processor", " ", cpu())
    return "_".join(re.findall(r"[A-Za-z0-9.-]+", words)) + "_" + today()


def revision():
    """The commit of attn, "unknown" outside a clone; marked when files of it were changed since."""
    here = os.path.dirname(os.path.abspath(__file__))

    def git(*arguments):
        return subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True).stdout

    try:
        commit = git("rev-parse", "--short=10", "HEAD").strip()
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/engine", ":/simd")
    except OSError:
        return "unknown"
    return (commit or "unknown") + (" with changes" if changed.strip() else "")


def facts(options, load_before, run):
    return {
        "cpu": cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "date": today(),
        "revision": revision(),
        "rounds": options.rounds,
        "slot": options.slot,
        "threads": options.threads,
        "load": [round(load_before[0], 2), round(os.getloadavg()[0], 2)],
        "versions": run.versions,
        "isa": run.isa,
    }
