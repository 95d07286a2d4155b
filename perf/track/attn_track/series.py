# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""Numbers to draw, from the records of a history."""

import collections
import csv
import dataclasses
import math
import re
import statistics
from pathlib import Path

from . import stats
from .serve import clock_of

CONFIDENCE = 0.95  # of the intervals drawn


@dataclasses.dataclass
class Point:
    """A workload at a commit: of all its rounds, on one machine and configuration."""

    commit: str
    model: dict
    seconds: float
    low: float | None  # seconds; None: too few rounds for an interval
    high: float | None
    peak: float
    share: float  # of the peak
    counters: dict

    def gflops(self, seconds):
        return 1e-9 * self.model["flops"] / seconds

    @property
    def gbs(self):
        return 1e-9 * self.model["bytes"] / self.seconds

    @property
    def intensity(self):
        return self.model["flops"] / self.model["bytes"]


def of_sweep(workload):
    """Whether it belongs to the speed over length, as D64T1024 does; D1 is a decode."""
    return re.fullmatch(r"D\d+T\d+", workload) is not None


def configuration(record):
    return (record["isa"], record["exp"], record["build"]["compiler"])


def make_point(commit, name, model, rounds):
    clock = clock_of(name)
    times = [statistics.median(r[clock]) for r in rounds]
    logs = [math.log(t) for t in times]
    centre, low, high = stats.interval(logs, CONFIDENCE)
    shares = [1e-9 * model["flops"] / t / r["peak_gflops"] for t, r in zip(times, rounds)]
    counters = {c: statistics.median(r[c] for r in rounds if c in r)
                for c in ("cycles", "instructions") if any(c in r for r in rounds)}
    finite = math.isfinite(low)
    return Point(commit, model, math.exp(centre), math.exp(low) if finite else None,
                 math.exp(high) if finite else None, max(r["peak_gflops"] for r in rounds),
                 statistics.median(shares), counters)


def lines(records, order):
    """{(workload, threads, configuration): points, in the order of the commits}. Rounds of the same
    commit are taken together."""
    gathered = collections.defaultdict(list)
    models = {}
    for record in records:
        for name, entry in record["workloads"].items():
            key = (name, configuration(record), record["commit"])
            gathered[key] += entry["rounds"]
            models[key] = {k: v for k, v in entry.items() if k not in ("rounds", "phases")}
    result = collections.defaultdict(list)
    for name, config, commit in sorted(gathered, key=lambda k: order.index(k[2])):
        key = (name, config, commit)
        point = make_point(commit, name, models[key], gathered[key])
        result[name.split("/")[0], models[key]["threads"], config].append(point)
    return dict(result)


def latest(records):
    """{name: its entry in the last record that has it, of the last record's configuration}, and that
    record."""
    last = records[-1]
    found = {}
    for record in records:
        if configuration(record) == configuration(last):
            found |= record["workloads"]
    return found, last


def peers(directory):
    """Rows of the comparison with other engines (perf/peers), by file: the fastest form of each
    engine, {(threads, workload): {engine: row}}."""
    tables = {}
    for path in sorted(Path(directory).glob("*.tsv")):
        table = collections.defaultdict(dict)
        with open(path, newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                time = number(row.get("median_ms"))
                if not time or not number(row.get("rounds")):
                    continue
                cell = table[int(row["threads"]), row["workload"]]
                kept = cell.get(row["engine"])
                if kept is None or time < number(kept["median_ms"]):
                    cell[row["engine"]] = row
        if table:
            tables[path.stem] = dict(table)
    return tables


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0
