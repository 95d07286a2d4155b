# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The longer tier, by hand: the planted slow-down and the same revision twice, many times each under
background load that comes and goes. Prints a line per comparison and a summary; exit status 0 when at
least 19 of 20 of each are right.

    .venv-track/bin/python perf/track/tests/endurance.py --help"""

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from test_planted import NAMES, PLANT, TRACK

SLOWER, WRONG_IF_SAME = "slower", ("slower", "faster")


def burn(until):
    """A neighbour: some seconds of memory traffic, some of idleness, at random."""
    block = bytearray(64 << 20)
    rng = random.Random(os.getpid())
    while time.time() < until.value:
        stop = time.time() + rng.uniform(1, 6)
        while time.time() < stop:
            block[:] = block[1:] + block[:1]
        time.sleep(rng.uniform(0.5, 5))


def verdicts(repo, options, extra):
    import json
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "out.json"
        command = [TRACK / "track", "--repo", repo, "compare", "HEAD", "HEAD", "--quiet", "--json", out, "--workloads",
                   options.workloads, "--width", options.width, "--time-limit", options.time_limit, *extra]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"status {done.returncode}: {done.stdout} {done.stderr}")
        workloads = json.loads(out.read_text())["workloads"]
        return {n.split("/")[0]: (w["ratio"], w["verdict"]) for n, w in workloads.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--time-limit", type=float, default=120, help="seconds per comparison")
    parser.add_argument("--width", type=float, default=0.04)
    parser.add_argument("--workloads", default=",".join(n.split("/")[0] for n in NAMES))
    parser.add_argument("--burners", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repo", default=TRACK, help="a clean clone")
    options = parser.parse_args()
    until = multiprocessing.Value("d", time.time() + 1e6)
    burners = [multiprocessing.Process(target=burn, args=(until,), daemon=True) for _ in range(options.burners)]
    for burner in burners:
        burner.start()
    right = {"planted": 0, "same": 0}
    start = time.time()
    for i in range(options.times):
        for kind in right:
            found = verdicts(options.repo, options, [PLANT] if kind == "planted" else [])
            named = [v for _, v in found.values()]
            good = SLOWER in named if kind == "planted" else not any(v in WRONG_IF_SAME for v in named)
            right[kind] += good
            left = (time.time() - start) / (i + 1) * (options.times - i - 1)
            told = ", ".join(f"{n} {ratio:.3f} {verdict}" for n, (ratio, verdict) in found.items())
            print(f"{kind:8} {i + 1:2}/{options.times}  {'right' if good else 'WRONG'}  {told}  (about {left:.0f} s left)",
                  flush=True)
    print(f"planted: {right['planted']} of {options.times} called slower; "
          f"same: {right['same']} of {options.times} not called slower or faster")
    return 0 if min(right.values()) >= 0.95 * options.times else 1


if __name__ == "__main__":
    sys.exit(main())
