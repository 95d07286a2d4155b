# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""One revision, measured for the history."""

import datetime
import fnmatch
import itertools
import os
import statistics
import time

from . import Refused, history, machine
from .serve import Server, calls_for, threads_of, typical

ROUND_SECONDS = 0.4
ROUND_SAMPLES = 3
DIGITS = 5  # significant: a clock says no more, and the file stays small
MODEL = ["what", "kind", "batch", "heads", "kv_heads", "len", "kv_len", "head_size", "d_model", "flops", "fmas",
         "exps", "bytes"]


def rounded(x):
    return float(f"{x:.{DIGITS}g}")


class Measurement:
    def __init__(self, program, label, arguments):
        self.program, self.label, self.arguments = program, label, arguments
        with self._server() as server:
            self.about = server.about
        self.models = {w["name"]: w for w in self.about["workloads"]}
        self.rounds = {}
        self.phases = {}
        self.bandwidth = {}
        self.interrupted = False

    def _server(self, cpu=None, program=None):
        return Server(program or self.program, self.label, self.arguments, cpu)

    def choose(self, patterns, threads):
        """Full names of what the patterns (P2, or P*) admit."""
        chosen = []
        for pattern in patterns:
            found = [n for n in self.models if fnmatch.fnmatchcase(n, pattern)]
            if not found:
                raise Refused(f"no such workload: {pattern}; there are {', '.join(self.models)}")
            chosen += [n for n in found if n not in chosen]
        return [f"{n}/f32/threads:{t}" for t in threads for n in chosen]

    def run(self, names, rounds, progress, phases_program=None):
        cpus = itertools.cycle(sorted(os.sched_getaffinity(0)))
        steps = rounds * len(names) + (len(names) if phases_program else 0)
        done = 0
        with progress.task("measure", steps) as task:
            try:
                for _ in range(rounds):
                    cpu = next(cpus)
                    for name in names:
                        task.at(done, name)
                        self.rounds.setdefault(name, []).append(self._round(name, cpu))
                        done += 1
                for threads in sorted({threads_of(n) for n in names}):
                    with self._server() as server:
                        self.bandwidth[threads] = server.ask(f"bandwidth {threads}")["gbs"]
                for name in names if phases_program else ():
                    task.at(done, f"phases of {name}")
                    self.phases[name] = self._phases(name, phases_program)
                    done += 1
            except KeyboardInterrupt:
                self.interrupted = True

    def _round(self, name, cpu):
        """A fresh process: time of single calls, and the peak right before and after."""
        threads = threads_of(name)
        with self._server(cpu if threads == 1 else None) as server:
            calls = calls_for(typical(server.sample(name, 1), name))
            peaks = [server.ask(f"peak {threads}")["gflops"]]
            answers, end = [], time.monotonic() + ROUND_SECONDS
            while len(answers) < ROUND_SAMPLES or time.monotonic() < end:
                answers.append(server.sample(name, calls))
            peaks.append(server.ask(f"peak {threads}")["gflops"])
        result = {clock: [rounded(statistics.median(a[clock])) for a in answers]
                  for clock in ("wall", "cpu")}
        result["peak_gflops"] = rounded(max(peaks))
        for counter in ("cycles", "instructions"):
            if counter in answers[0]:
                result[counter] = rounded(statistics.median(a[counter] for a in answers) / calls)
        return result

    def _phases(self, name, program):
        with self._server(program=program) as server:
            if not server.about["phases"]:
                raise Refused(f"attn_perf of {self.label} measures no phases, even with ATTN_PHASES=ON")
            server.sample(name, 1)
            answers = [server.sample(name, 3)["phases"] for _ in range(5)]
        shares = {p: statistics.median(a[p] for a in answers) for p in answers[0]}
        return {p: rounded(share / sum(shares.values())) for p, share in shares.items()}

    def record(self, commit_info):
        """For the history; None when nothing was measured."""
        if not self.rounds:
            return None
        workloads = {}
        for name, rounds in self.rounds.items():
            model = self.models[name.split("/")[0]]
            entry = {k: model[k] for k in MODEL if k in model}  # older programs have no kv_len
            entry |= {"threads": threads_of(name), "rounds": rounds}
            if name in self.phases:
                entry["phases"] = self.phases[name]
            workloads[name] = entry
        about = self.about
        return {
            "schema": history.SCHEMA,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            **commit_info,
            "complete": not self.interrupted,
            "machine": machine.describe(),
            "build": {k: about[k] for k in ("compiler", "flags", "attn_version", "sleef")},
            "isa": about["isa"],
            "exp": about["exp"],
            "hardware_counters": about["hardware_counters"],
            "bandwidth_gbs": {str(t): rounded(b) for t, b in self.bandwidth.items()},
            "workloads": workloads,
        }
