# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""What perf/peers/run can be told. Needs nothing but Python itself: run by itself, before anything is installed, it
prints the peers that are asked for, or the usage."""

import argparse
import contextlib
import io
import os
import sys

from names import PEERS


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


def main():
    usage = io.StringIO()
    try:
        with contextlib.redirect_stdout(usage):
            options = parse([*sys.argv[1:], "--build", "."])
    except SystemExit as stop:
        if stop.code == 0:
            print("usage:" + usage.getvalue(), end="")
        raise
    print(*options.peers)


if __name__ == "__main__":
    main()
