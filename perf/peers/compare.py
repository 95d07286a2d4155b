# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""attn against other engines, all of them alternating in one run. Started by perf/peers/run."""

import argparse
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
from engines import ATTN, PEERS, TEAM
from workloads import SWEEP, choose


STOPPED = 130


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="perf/peers/run", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Times attn and other engines on the same inputs, round by round in turn, checks every\n"
                    "result against float64, and writes a table (.tsv, .md) and plots (.png).\n"
                    "A peer that cannot be had or fails is named as a gap.",
        epilog="workloads: P1 ... P5 attention, L1 ... L4 layers, G1 ... G3 single projections, D1 ... D5 decode,\n"
               "S0 S1 small work, sweep: speed over length; a beginning of a name means all of them, as P.\n"
               "Ctrl-C or SIGTERM: the workloads that are finished are written, with _stopped in the name.")
    parser.add_argument("--quick", action="store_true",
                        help="2 short rounds, a thinner sweep, into the build directory: to see that it works")
    parser.add_argument("--peers", metavar="A,B", help=f"of {','.join(PEERS)}, or none (default: all)")
    parser.add_argument("--workloads", metavar="A,B", help="default: all")
    parser.add_argument("--rounds", type=int, metavar="N", help="default: 7")
    parser.add_argument("--slot", type=float, metavar="SECONDS",
                        help="how long an engine is timed in each round, at least one call (default: 0.1)")
    parser.add_argument("--threads", metavar="N,all", default="1,all",
                        help="numbers of threads, one after the other (default: 1,all)")
    parser.add_argument("--json", metavar="FILE", help="also write everything, every round, as JSON")
    parser.add_argument("--output", metavar="DIRECTORY", help="default: perf/peers/results")
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)  # perf/peers/run says it
    options = parser.parse_args(arguments)
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; at least 1")
    if options.slot is not None and not 0 < options.slot <= 60:
        parser.error(f"--slot is {options.slot:g}; more than 0, at most 60")
    options.rounds = options.rounds or (2 if options.quick else 7)
    options.slot = options.slot or (0.03 if options.quick else 0.1)
    options.peers = options.peers.split(",") if options.peers else list(PEERS)
    if options.peers == ["none"]:
        options.peers = []
    for name in options.peers:
        if name not in PEERS:
            parser.error(f"no peer is named {name}; there are {', '.join(PEERS)}")
    options.threads = thread_counts(parser, options.threads)
    if not options.output:
        here = os.path.dirname(os.path.abspath(__file__))
        options.output = os.path.join(options.build if options.quick else here,
                                      "quick" if options.quick else "results")
    return options


def thread_counts(parser, text):
    most = len(os.sched_getaffinity(0))
    counts = []
    for part in text.split(","):
        if part != "all" and not (part.isdigit() and 1 <= int(part) <= most):
            parser.error(f"--threads has {part!r}; 'all', or 1 to {most}, the CPUs of this process")
        count = most if part == "all" else int(part)
        if count not in counts:
            counts.append(count)
    return counts


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
