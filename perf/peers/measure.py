# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""Runs the cases and keeps what came out."""

import dataclasses
import math
import os
import statistics
from dataclasses import dataclass, field

import numpy as np
import oracle
import workloads
from engines import Engine
from names import ATTN, CONTIGUOUS, TEAM

ISAS = ("avx512", "avx2", "neon")
MEMORY = "memory"  # in the place of a set: the limit is what can be read
# A peer's forms that took this much longer than its best one at first sight are not timed again.
FORM_MARGIN = 1.5
# Seconds of it: with a single short call, an interruption would decide.
FIRST_SIGHT = 0.02
# Inputs that errors of attn and PyTorch are taken from, of cases of so few operations and bytes: the largest error of few
# results says little, from one draw to the next it changes by half.
DRAWS, DRAWN_FLOPS, DRAWN_BYTES = 8, 1e9, 2e8
# Calls of this many seconds, this much slower than the fastest engine, are timed in few rounds.
LONG_CALL, FAR_BEHIND, FEW_ROUNDS = 0.5, 3.0, 3


@dataclass
class Row:
    """One form of one engine on one case and number of threads."""

    threads: int
    case: workloads.Case
    engine: str
    form: str
    slot: int
    first: float = 0.0  # seconds of the shortest call at first sight
    rms: list = field(default_factory=list)  # errors, by draw of inputs
    largest: list = field(default_factory=list)
    samples: int = 0
    best: list = field(default_factory=list)  # seconds, by round
    median: list = field(default_factory=list)
    turn: list = field(default_factory=list)  # numbers of these rounds

    @property
    def rounds(self):
        return len(self.turn)

    @property
    def error_rms(self):
        return math.sqrt(statistics.fmean(error**2 for error in self.rms)) if self.rms else 0

    @property
    def error_max(self):
        return float(np.max(self.largest)) if self.largest else 0  # NaN, if one is

    @property
    def seconds(self):
        """Median of the rounds."""
        return statistics.median(self.median) if self.median else self.first

    @property
    def shortest(self):
        return min(self.best) if self.best else self.first

    @property
    def isa(self):
        """The set that the form names; "" is the machine's."""
        word = self.form.split(" ")[0]
        return word if self.engine == ATTN and word in ISAS else ""


@dataclass
class Gap:
    threads: int
    case: str  # "" when all of them
    engine: str
    form: str
    reason: str


class Run:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.rows, self.gaps = [], []
        self.peaks = {}  # (threads, case name, isa or MEMORY): GFLOP/s, or GB/s, by round
        self.versions = {}
        self.isa = ""
        self.engines, self.threads = [], 0

    # ---- engines ----

    def start(self, threads):
        self.close()
        self.threads = threads
        names = [ATTN] + ([TEAM] if threads > 1 else []) + self.options.peers
        for name in names:
            engine = Engine(name, threads, self.directory, self.options.build)
            _, fault = engine.guarded(lambda: None)
            if fault:
                self.gaps.append(Gap(threads, "", name, "", fault))
                continue
            self.versions[name] = engine.version
            self.engines.append(engine)
        if self.engines and self.engines[0].name == ATTN:
            self.isa = self.engines[0].version.partition("(")[2].rstrip(")")

    def close(self):
        for engine in self.engines:
            engine.close()
        self.engines = []

    def takes_part(self, engine, case):
        if case.family == "sweep":
            return engine.name in (ATTN, "torch", "openvino")
        if case.kind == "paged":  # no peer has pages: the others would do what they do without
            return engine.name in (ATTN, "torch")
        return engine.name != TEAM or case.family in "PL"

    # ---- one case ----

    def measure(self, threads, case):
        """All of it or, when it is interrupted, nothing."""
        rows, gaps, peaks = len(self.rows), len(self.gaps), {k: len(v) for k, v in self.peaks.items()}
        try:
            self.measure_whole(threads, case)
        except KeyboardInterrupt:
            del self.rows[rows:], self.gaps[gaps:]
            self.peaks = {key: self.peaks[key][:count] for key, count in peaks.items()}
            raise

    def measure_whole(self, threads, case):
        if threads != self.threads:
            self.start(threads)
        truth = self.draw(case)
        engines = [engine for engine in self.engines if self.takes_part(engine, case)]
        found = [(engine, row) for engine in engines for row in self.prepare(engine, case, truth)]
        self.rows += [row for _, row in found]
        self.alternate(case, self.worth_timing(found))
        compared = [self.best_form(threads, case, name) for name in (ATTN, "torch")]
        if None not in compared:
            self.draw_more(case, [(engine, row) for engine, row in found if row in compared])
        for engine in engines:
            engine.guarded(lambda: engine.worker.ask("release"))

    def draw(self, case, *seed):
        """Inputs, as files; returns their truth."""
        arrays = workloads.inputs(case, *seed)
        for name, array in arrays.items():
            array.tofile(os.path.join(self.directory, f"{name}.f32"))
        return oracle.truth(case, arrays)

    def draw_more(self, case, compared):
        if case.family == "sweep" or case.flops > DRAWN_FLOPS or case.cached and case.kv_bytes > DRAWN_BYTES:
            return
        for seed in range(1, DRAWS):
            truth = self.draw(case, seed)
            for engine, row in list(compared):
                _, fault = engine.guarded(lambda: self.check(engine, row, truth, 0))
                if fault:
                    self.gaps.append(Gap(self.threads, case.name, engine.name, row.form, fault))
                    self.rows.remove(row)
                    compared.remove((engine, row))

    def prepare(self, engine, case, truth):
        forms, fault = engine.guarded(lambda: engine.forms(case.kind))
        if fault:
            self.gaps.append(Gap(self.threads, case.name, engine.name, "", fault))
        if engine.name == TEAM:
            forms = forms and forms[:1]
        if case.family == "sweep":
            forms = forms and [form for form in forms if "compiled" not in form and "(B,T,H,D)" not in form]
        rows = []
        for slot, form in enumerate(forms or []):
            name = CONTIGUOUS if case.kind == "paged" and form == "contiguous" else engine.name
            row = Row(self.threads, case, name, form, slot)
            _, fault = engine.guarded(lambda: self.first_sight(engine, row, truth))
            if not fault:
                rows.append(row)
                continue
            lost = [] if engine.worker else [other.form for other in rows]
            for name in [form, *lost]:
                self.gaps.append(Gap(self.threads, case.name, engine.name, name, fault))
            if lost:
                rows = []
        return rows

    def first_sight(self, engine, row, truth):
        row.first = self.check(engine, row, truth, FIRST_SIGHT)

    def check(self, engine, row, truth, seconds):
        """Calls for so long, whose result must be right; returns the shortest one's time."""
        engine.prepare(row.slot, row.case, row.form)
        shortest = engine.worker.run(row.slot, seconds)[1]
        engine.worker.ask(f"result {row.slot} result")
        path = os.path.join(self.directory, "result.f32")
        rms, largest = truth.errors(oracle.read_result(path, row.case, row.form))
        row.rms.append(rms)
        row.largest.append(largest)
        if truth.wrong(largest):
            raise oracle.Wrong(f"wrong result: largest error {largest:.2g}")
        return shortest

    def worth_timing(self, found):
        best = {}
        for _, row in found:
            best[row.engine] = min(best.get(row.engine, row.first), row.first)
        return [(engine, row) for engine, row in found
                if row.engine == ATTN or row.first <= FORM_MARGIN * best[row.engine]]

    def turns(self, row, fastest):
        """The rounds that a form takes part in."""
        rounds = self.options.rounds
        if row.first > LONG_CALL and row.first > FAR_BEHIND * fastest and rounds > FEW_ROUNDS:
            return {i * (rounds - 1) // (FEW_ROUNDS - 1) for i in range(FEW_ROUNDS)}
        return set(range(rounds))

    def alternate(self, case, timed):
        """Every round begins with another one, so that none always follows the same."""
        fastest = min((row.first for _, row in timed), default=0)
        turns = [self.turns(row, fastest) for _, row in timed]
        for turn in range(self.options.rounds):
            self.measure_peaks(case)
            for i in range(len(timed)):
                place = (i + turn) % len(timed)
                if turn in turns[place]:
                    self.time(*timed[place], turn)

    def time(self, engine, row, turn):
        if not engine.worker:  # it died: what was prepared is gone
            return
        reply, fault = engine.guarded(lambda: engine.worker.run(row.slot, self.options.slot))
        if fault:
            self.gaps.append(Gap(self.threads, row.case.name, row.engine, row.form, fault))
            return
        count, best, median = reply
        row.samples += count
        row.best.append(best)
        row.median.append(median)
        row.turn.append(turn)

    def measure_peaks(self, case):
        ours = next((engine for engine in self.engines if engine.name == ATTN), None)
        if not ours or not ours.worker or case.cached and not case.from_memory:
            return  # no share is said of decode in the caches
        questions = {MEMORY: f"bandwidth {case.kv_bytes:.0f}"} if case.from_memory else {isa: f"peak {isa}" for isa in ISAS}
        for limit, question in questions.items():
            value, _ = ours.guarded(lambda: float(ours.worker.ask(question)))
            if value:
                self.peaks.setdefault((self.threads, case.name, limit), []).append(value)

    # ---- what came out ----

    def limit(self, row):
        return MEMORY if row.case.from_memory else row.isa or self.isa

    def peak(self, threads, isa):
        """The highest of all rounds on that many threads, GFLOP/s, of MEMORY GB/s; 0 when unknown."""
        seen = [max(values) for (t, _, i), values in self.peaks.items() if (t, i) == (threads, isa)]
        return max(seen, default=0)

    def share(self, row):
        """Of that peak, by the shortest call. What can be read changes with the neighbours from minute to minute: of
        that it is the highest while the case was measured."""
        limit = self.limit(row)
        mine = self.peaks.get((row.threads, row.case.name, limit), [0])
        peak = max(mine) if limit == MEMORY else self.peak(row.threads, limit)
        return row.case.amount / row.shortest / 1e9 / peak if peak else 0

    def share_median(self, row):
        """Median over the rounds of the share of the peak right before."""
        peaks = self.peaks.get((row.threads, row.case.name, self.limit(row)), [])
        shares = [row.case.amount / seconds / 1e9 / peaks[turn]
                  for turn, seconds in zip(row.turn, row.median) if turn < len(peaks)]
        return statistics.median(shares) if shares else 0

    def forms(self, threads, case, engine):
        """Those of an engine's forms that were timed on the machine's own set."""
        return [row for row in self.rows if row.threads == threads and row.case == case
                and row.engine == engine and not row.isa and row.rounds]

    def best_form(self, threads, case, engine):
        """The fastest of them by its median, None when there is none."""
        return min(self.forms(threads, case, engine), key=lambda row: row.seconds, default=None)

    def as_json(self, facts):
        rows = [{**dataclasses.asdict(row), "case": row.case.name, "flops": row.case.flops,
                 "error_rms": row.error_rms, "error_max": row.error_max} for row in self.rows]
        peaks = [{"threads": t, "case": c, "limit": i, "by_round": v} for (t, c, i), v in self.peaks.items()]
        gaps = [dataclasses.asdict(gap) for gap in self.gaps]
        return {"facts": facts, "rows": rows, "peaks": peaks, "gaps": gaps}


def ratios(row, other):
    """How many times as long `other` takes: median over the rounds that both have, and by the shortest
    calls."""
    times = dict(zip(other.turn, other.median))
    both = [times[turn] / seconds for turn, seconds in zip(row.turn, row.median) if turn in times]
    return statistics.median(both) if both else 0, other.shortest / row.shortest
