# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""Two programs, sampled in turn until the ratio of their times is known as well as asked."""

import dataclasses
import fnmatch
import itertools
import os
import statistics
import time

from . import Refused, stats
from .serve import Server, calls_for, clock_of, threads_of, typical

FIRST_ROUNDS = 10
ROUND_SECONDS = 0.6
ROUND_BLOCKS = 2  # at least


@dataclasses.dataclass
class Side:
    label: str
    program: object
    commit: str = ""


@dataclasses.dataclass
class Limits:
    width: float = 0.02  # of the interval of the ratio
    margin: float = 0.02  # what counts as the same
    confidence: float = 0.99  # that no verdict of the table is wrong
    seconds: float = 600


class Comparison:
    """Measures and judges; `rounds` holds what there is at any time, also after Ctrl-C."""

    def __init__(self, base, head, names, limits, arguments=()):
        self.base, self.head, self.names = base, head, names
        self.limits, self.arguments = limits, arguments
        self.rounds = {name: [] for name in names}  # raw: what a round returned
        self.interrupted = False
        self.started = time.monotonic()

    def logs(self):
        return {n: [r["log"] for r in rounds] for n, rounds in self.rounds.items()}

    def estimates(self):
        return stats.judge(self.logs(), self.limits.margin, self.limits.confidence)

    def run(self, progress):
        cpus = itertools.cycle(sorted(os.sched_getaffinity(0)))
        with progress.task("measure", self.limits.seconds) as task:
            try:
                self._sweeps(cpus, task)
            except KeyboardInterrupt:
                self.interrupted = True

    def _sweeps(self, cpus, task):
        """A round of every workload that is not known well enough, again and again: what happens to
        the machine happens to all of them."""
        for sweep in itertools.count():
            left = self._unfinished()
            if not left:
                return
            cpu = next(cpus)
            for name in left:
                if self._elapsed() >= self.limits.seconds:
                    return
                task.at(self._elapsed(), f"{name}, round {sweep + 1}", self._expected())
                self.rounds[name].append(self._round(name, sweep, cpu))

    def _elapsed(self):
        return time.monotonic() - self.started

    def _unfinished(self):
        """By the width alone: to stop at a verdict that one likes would make it worth less."""
        if min(map(len, self.rounds.values())) < FIRST_ROUNDS:
            return [n for n in self.names if len(self.rounds[n]) < FIRST_ROUNDS]
        return [n for n, e in self.estimates().items() if e.width > self.limits.width]

    def _expected(self):
        """Seconds in total, as far as can be told: an interval shrinks with the root of the rounds."""
        logs, spent = self.logs(), self._elapsed()
        done = sum(map(len, logs.values()))
        if not done:
            return self.limits.seconds
        needed = 0
        for values in logs.values():
            n = len(values)
            if n >= stats.LEAST_ROUNDS:
                shrink = 2 * 3.5 * statistics.stdev(values) / n**0.5 / self.limits.width
                needed += max(n, FIRST_ROUNDS, n * shrink**2)
            else:
                needed += FIRST_ROUNDS
        return min(self.limits.seconds, max(spent, spent / done * needed))

    def _round(self, name, sweep, cpu):
        pinned = cpu if threads_of(name) == 1 else None
        base = lambda: Server(self.base.program, self.base.label, self.arguments, pinned)
        head = lambda: Server(self.head.program, self.head.label, self.arguments, pinned)
        # Who starts first gets other memory; so they take turns.
        if sweep % 2:
            with head() as h, base() as b:
                return self._blocks(name, b, h)
        with base() as b, head() as h:
            return self._blocks(name, b, h)

    def _blocks(self, name, base, head):
        first = [server.sample(name, 1) for server in (base, head)]  # sets up and checks the result
        calls = calls_for(typical(first[0], name))
        samples, logs = [], []
        end = time.monotonic() + ROUND_SECONDS
        while len(logs) < ROUND_BLOCKS or time.monotonic() < end:
            # A B B A, then B A A B: also what a switch costs falls on both.
            order = (base, head, head, base) if len(logs) % 2 == 0 else (head, base, base, head)
            times = [server.sample(name, calls) for server in order]
            seen = {True: [], False: []}
            for server, answer in zip(order, times):
                seen[server is head].append(answer)
            value = lambda answer: typical(answer, name)
            logs.append(stats.block_log(*map(value, (seen[False][0], *seen[True], seen[False][1]))))
            samples.append({side: {clock: [statistics.median(a[clock]) for a in answers]
                                   for clock in ("wall", "cpu")}
                            for side, answers in (("base", seen[False]), ("head", seen[True]))})
        return {"log": statistics.median(logs), "calls": calls, "blocks": samples}

    def typical_times(self, name):
        """Seconds of one call, base and head: medians, for the reader; no verdict rests on them."""
        clock = clock_of(name)
        return tuple(
            statistics.median(t for r in self.rounds[name] for b in r["blocks"] for t in b[side][clock])
            for side in ("base", "head")
        )


def choose(base, head, patterns, threads, arguments=()):
    """Full names of the workloads that the patterns admit; each must exist on both sides."""
    offered = []
    for side in (base, head):
        with Server(side.program, side.label, arguments) as server:
            offered.append([w["name"] for w in server.about["workloads"]])
    union = offered[0] + [n for n in offered[1] if n not in offered[0]]
    chosen = []
    for pattern in patterns:
        found = [n for n in union if fnmatch.fnmatchcase(n, pattern)]
        if not found:
            raise Refused(f"no such workload: {pattern}; there are {', '.join(union)}")
        chosen += [n for n in found if n not in chosen]
    for name in chosen:
        for here, there, has in ((base, head, offered[1]), (head, base, offered[0])):
            if name not in has:
                raise Refused(f"workload {name} exists only in {here.label}, not in {there.label}")
    return [f"{n}/f32/threads:{t}" for t in threads for n in chosen]
