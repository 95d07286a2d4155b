# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The commands. Exit status: 0; 1 something is slower; 2 bad input, nothing recorded; 130 stopped,
with what was measured until then kept."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from . import Refused, history, machine, stats
from .build import Builder
from .compare import Comparison, Limits, Side, choose
from .progress import Bars
from .repo import Repo
from .tables import as_data, print_comparison

HERE = Path(__file__).resolve().parent
COMPARE_SET = "P1,P2,P3,P5,L1,L3"
GATE_SET = "P1,P2,P3,L1"
GATE_MARGIN, GATE_SECONDS = 0.07, 240
RUN_SET = "P*,L*,D*"
STOPPED = 130


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message}; see {self.prog} --help")


def _names(text):
    return [part for part in text.split(",") if part]


def _threads(text):
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1 or max(counts) > 1024:
        raise argparse.ArgumentTypeError(f"{text}: allowed are numbers from 1 to 1024, as 1,2")
    return counts


def _number(least, most):
    def parse(text):
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text}: allowed are {least:g} to {most:g}")
        return value

    return parse


def parser():
    top = Parser(prog="track", description="Measures attn, compares two revisions, keeps a history, draws it.",
                 epilog="How to read it all: docs/performance-tracking.md")
    top.add_argument("--repo", default=HERE, help="the git repository (default: the one of this program)")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    run = commands.add_parser("run", help="measure a revision and append it to the history")
    run.add_argument("--revision", default="HEAD")
    run.add_argument("--rounds", type=_number(1, 1000), default=8, help="fresh processes per workload")
    run.add_argument("--phases", action="store_true", help="also the times per phase, from a second build")
    run.add_argument("--history", type=Path, help="directory (default: perf/history)")
    _common(run, RUN_SET)

    compare = commands.add_parser("compare", help="are any workloads slower or faster in HEAD than in BASE?")
    compare.add_argument("base", metavar="BASE")
    compare.add_argument("head", metavar="HEAD")
    compare.add_argument("--margin", type=_number(0, 1), default=0.02, help="what counts as the same (0.02)")
    compare.add_argument("--width", type=_number(0.001, 1), default=0.02,
                         help="measure until the ratio's interval is as narrow as this (0.02)")
    compare.add_argument("--confidence", type=_number(0.5, 0.9999), default=0.99)
    compare.add_argument("--time-limit", type=_number(1, 1e6), default=600, help="seconds of measuring (600)")
    compare.add_argument("--json", type=Path, metavar="FILE", help="also write verdicts and raw samples")
    for side in ("base", "head"):
        compare.add_argument(f"--cmake-{side}", action="append", default=[], metavar="ARG",
                             help=f"a CMake argument for {side.upper()} only, as --cmake-{side}=-DNAME=VALUE")
    _common(compare, COMPARE_SET)

    gate = commands.add_parser("gate", help="fail if HEAD is surely more than 7 %% slower than where it "
                                            "left origin/main")
    gate.add_argument("--base", help="another revision to compare with")
    gate.add_argument("--time-limit", type=_number(1, 1e6), default=GATE_SECONDS,
                      help="seconds, builds included (240)")
    _common(gate, GATE_SET)

    report = commands.add_parser("report", help="draw the history: one HTML page, and PNGs")
    report.add_argument("--history", type=Path, help="directory (default: perf/history)")
    report.add_argument("--out", type=Path, help="directory (default: build-track/report)")
    report.add_argument("--peers", type=Path, help="directory of peers' results (default: perf/peers/results)")
    return top


def _common(command, workloads):
    command.add_argument("--workloads", type=_names, default=_names(workloads), metavar="NAME,...",
                         help=f"names or patterns, as P2,L* (default: {workloads})")
    command.add_argument("--threads", type=_threads, default=[1], metavar="N,...")
    command.add_argument("--isa", help="force an instruction set")
    command.add_argument("--exp", help="force an exp provider")
    command.add_argument("--quiet", action="store_true", help="no progress bars")


def _perf_arguments(options):
    chosen = []
    for name in ("isa", "exp"):
        if getattr(options, name):
            chosen += [f"--{name}", getattr(options, name)]
    return chosen


def do_run(options, repo):
    from .measure import Measurement

    commit = repo.resolve(options.revision)
    repo.require_clean()
    progress = Bars(options.quiet)
    builder = Builder(repo, progress)
    label = f"{options.revision} ({commit[:12]})"
    measurement = Measurement(builder.build(commit), label, _perf_arguments(options))
    names = measurement.choose(options.workloads, options.threads)
    phases = builder.build(commit, ["-DATTN_PHASES=ON"]) if options.phases else None
    measurement.run(names, int(options.rounds), progress, phases)
    record = measurement.record(repo.commit_info(commit))
    if record is None:
        print("track: stopped before anything was measured; nothing recorded", file=sys.stderr)
        return STOPPED
    directory = options.history or repo.root / "perf" / "history"
    path = history.append(directory, machine.fingerprint(record["machine"]), record)
    print(f"{len(record['workloads'])} workloads of {label} recorded in {path}")
    return STOPPED if measurement.interrupted else 0


def _sides(options, repo, builder, base, head):
    """Programs of both, and a clear name of each. Revisions are checked before anything is built."""
    commits = [repo.resolve(base), repo.resolve(head)]
    repo.require_clean()
    extras = [getattr(options, "cmake_base", []), getattr(options, "cmake_head", [])]
    sides = []
    for revision, commit, extra in zip((base, head), commits, extras):
        given = "" if commit.startswith(revision) else f"{revision} = "
        label = f"{given}{commit[:12]}" + (f" with {' '.join(extra)}" if extra else "")
        sides.append(Side(label, builder.build(commit, extra), commit))
    return sides


def do_compare(options, repo):
    progress = Bars(options.quiet)
    base, head = _sides(options, repo, Builder(repo, progress), options.base, options.head)
    arguments = _perf_arguments(options)
    names = choose(base, head, options.workloads, options.threads, arguments)
    limits = Limits(options.width, options.margin, options.confidence, options.time_limit)
    comparison = Comparison(base, head, names, limits, arguments)
    comparison.run(progress)
    return _conclude(comparison, options.json)


def _conclude(comparison, json_file=None):
    print_comparison(comparison)
    if json_file:
        part = json_file.with_name(json_file.name + ".part")
        part.write_text(json.dumps(as_data(comparison)))
        part.rename(json_file)
    if comparison.interrupted:
        print("stopped: judged by what was measured until then")
        return STOPPED
    return 1 if any(e.verdict == stats.SLOWER for e in comparison.estimates().values()) else 0


def do_gate(options, repo):
    started = time.monotonic()
    head = repo.resolve("HEAD")
    base = repo.resolve(options.base) if options.base else repo.gate_base()
    if base is None:
        print("perf gate: NOT MEASURED: HEAD has no parent here to compare with")
        return 0
    if not repo.engine_differs(base, head):
        print(f"perf gate: NOT MEASURED: the engine is the same in {base[:12]} and HEAD (only other files differ)")
        return 0
    if not repo.has_file(base, "perf/serve.c"):
        print(f"perf gate: NOT MEASURED: {base[:12]} is older than attn_perf --serve")
        return 0
    progress = Bars(options.quiet)
    base_side, head_side = _sides(options, repo, Builder(repo, progress), base, "HEAD")
    names = choose(base_side, head_side, options.workloads, options.threads, _perf_arguments(options))
    limits = Limits(width=0.03, margin=GATE_MARGIN)
    limits.seconds = max(1, options.time_limit - (time.monotonic() - started) - 10)
    comparison = Comparison(base_side, head_side, names, limits, _perf_arguments(options))
    comparison.run(progress)
    status = _conclude(comparison)
    verdicts = [e.verdict for e in comparison.estimates().values()]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    print(f"perf gate: {'FAILED' if status == 1 else 'passed' if status == 0 else 'STOPPED'}: {counts}")
    return status


def do_report(options, repo):
    from .report import write_report

    directory = options.history or repo.root / "perf" / "history"
    peers = options.peers or repo.root / "perf" / "peers" / "results"
    out = options.out or repo.root / "build-track" / "report"
    print(write_report(repo, directory, peers, out, Bars()))
    return 0


COMMANDS = {"run": do_run, "compare": do_compare, "gate": do_gate, "report": do_report}


def main(arguments=None):
    # A terminated run keeps what it measured, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        options = parser().parse_args(arguments)
        return COMMANDS[options.command](options, Repo(options.repo))
    except Refused as fault:
        print(f"track: {fault}", file=sys.stderr)
        return 2
    except OSError as fault:
        print(f"track: {fault.filename or ''}: {os.strerror(fault.errno) if fault.errno else fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("track: stopped; nothing recorded", file=sys.stderr)
        return STOPPED
