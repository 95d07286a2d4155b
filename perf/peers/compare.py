# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""attn against other engines, all of them alternating in one run. Started by perf/peers/run."""

import atexit
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
import time

import machine
import measure
import plots
import report
from arguments import parse
from names import ATTN, TEAM
from workloads import SWEEP, choose


STOPPED = 130


def chosen_cases(options):
    cases = choose(options.workloads.split(",") if options.workloads else [])
    if options.quick:  # every other length, none of the long ones
        thin = [case for case in SWEEP if case.sizes[3] in (16, 64, 256, 1024)]
        cases = [case for case in cases if case not in SWEEP or case in thin]
    return cases


def say_progress(text, left=None):
    """On a terminal the line is overwritten."""
    left = "" if left is None else f"  about {datetime.timedelta(seconds=round(left))} left"
    end, start = ("", "\r\x1b[K") if sys.stderr.isatty() else ("\n", "")
    print(start + text + left, end=end, file=sys.stderr, flush=True)


def expected_seconds(case, threads, options):
    """A guess, of use only against those of other cases: some engines reach 10 GFLOP/s, or read 2 GB/s; what is
    compiled takes its time."""
    forms = 3 if case.family == "sweep" else 8
    call = case.flops / 2e10 / threads + (case.kv_bytes / 2e9 if case.cached else 0)
    ready = {"attention": 15, "layer": 10}.get(case.kind, 3) if case.family != "sweep" else 0
    return ready + forms * (4 * call + options.rounds * (2 * options.slot + call))


def by_signal(*_):
    raise KeyboardInterrupt


def run_all(options, cases, directory):
    """The run, and whether it was stopped before its end."""
    plan = [(threads, case) for threads in options.threads for case in cases
            if case.family != "sweep" or threads == options.threads[0]]
    guesses = [expected_seconds(case, threads, options) for threads, case in plan]
    run = measure.Run(options, directory)
    start, done, stopped = time.monotonic(), 0.0, False
    try:
        for (threads, case), guess in zip(plan, guesses):
            left = (time.monotonic() - start) * (sum(guesses) - done) / done if done else None
            say_progress(f"{threads} thread{'s' * (threads > 1)}, {case.name} ({case.shape})", left)
            run.measure(threads, case)
            done += guess
    except KeyboardInterrupt:
        stopped = True
    run.close()
    verb = "stopped after" if stopped else "measured in"
    say_progress(f"{verb} {datetime.timedelta(seconds=round(time.monotonic() - start))}\n")
    return run, stopped


def main():
    options = parse(sys.argv[1:])
    cases = chosen_cases(options)
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = tempfile.mkdtemp(prefix="attn-peers-", dir=shared)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    signal.signal(signal.SIGTERM, by_signal)
    before = os.getloadavg()
    run, stopped = run_all(options, cases, directory)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # what is left takes a few seconds
    facts = machine.facts(options, before, run) | {"stopped": stopped}
    if not any(row.engine == ATTN and row.rounds for row in run.rows):
        for gap in run.gaps:
            print(f"compare: {gap.engine}: {gap.reason}", file=sys.stderr)
        if stopped:
            print("compare: stopped before any workload was finished: nothing is written", file=sys.stderr)
        return STOPPED if stopped else 1
    os.makedirs(options.output, exist_ok=True)
    # What is not complete takes no complete table's place.
    stem = os.path.join(options.output, machine.file_stem() + "_stopped" * stopped)
    written = report.write(stem, facts, run) + plots.write(stem, facts, run)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(run.as_json(facts), file, indent=1)
        written.append(options.json)
    print(report.summary(facts, run))
    print("written: " + ", ".join(os.path.relpath(path) for path in written))
    faults = [gap for gap in run.gaps if gap.engine in (ATTN, TEAM)]
    for gap in faults:  # a peer's gap is its own affair, attn's is a fault
        print(f"compare: attn, {gap.case} {gap.form}: {gap.reason}", file=sys.stderr)
    return 1 if faults else STOPPED if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
