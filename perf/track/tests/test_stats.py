# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors

import math

import numpy as np
import pytest

from attn_track import stats

MARGIN = 0.02


def rounds(ratio, spread, count, seed):
    return list(np.random.default_rng(seed).normal(math.log(ratio), spread, count))


@pytest.mark.parametrize("ratio, expected", [(1.10, stats.SLOWER), (0.90, stats.FASTER), (1.0, stats.SAME)])
def test_verdict_of_clear_rounds(ratio, expected):
    judged = stats.judge({"P": rounds(ratio, 0.005, 12, 3)}, MARGIN, 0.99)
    assert judged["P"].verdict == expected
    assert judged["P"].low <= judged["P"].ratio <= judged["P"].high
    assert judged["P"].ratio == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize("ratio, spread", [(1.0, 0.2), (1.1, 0.3), (1.02, 0.005)])
def test_noise_or_the_margin_itself_is_not_enough_evidence(ratio, spread):
    assert stats.judge({"P": rounds(ratio, spread, 12, 4)}, MARGIN, 0.99)["P"].verdict == stats.UNDECIDED


def test_few_rounds_never_give_a_verdict():
    few = [math.log(1.5)] * (stats.LEAST_ROUNDS - 1)
    judged = stats.judge({"P": few}, MARGIN, 0.99)["P"]
    assert judged.verdict == stats.UNDECIDED and judged.high == math.inf


def test_a_linear_drift_cancels_in_a_block():
    base, head = 1.0, 1.1
    drift = [1.0, 1.001, 1.002, 1.003]
    got = stats.block_log(base * drift[0], head * drift[1], head * drift[2], base * drift[3])
    assert got == pytest.approx(math.log(head / base), abs=1e-5)


def test_some_unlucky_processes_do_not_decide():
    values = rounds(1.0, 0.003, 20, 5)
    values[3] = values[11] = math.log(1.4)
    judged = stats.judge({"P": values}, MARGIN, 0.99)["P"]
    assert judged.ratio == pytest.approx(1, abs=0.003)  # the mean is 1.034
    assert judged.verdict in (stats.SAME, stats.UNDECIDED)
    assert judged.low < 1 < judged.high


@pytest.mark.parametrize("draw", ["normal", "heavy"])
@pytest.mark.parametrize("count", [8, 12, 24])
def test_intervals_hold_what_they_promise(draw, count, monkeypatch):
    monkeypatch.setattr(stats, "RESAMPLES", 999)
    rng = np.random.default_rng(11)
    missed = 0
    for _ in range(300):
        values = rng.normal(size=count) if draw == "normal" else rng.standard_t(2, size=count)
        _, low, high = stats.interval(values, 0.95)
        missed += not low <= 0 <= high
    # 5 % are 15; 28 is beyond what chance does to a right interval once in a thousand times.
    assert missed < 28


def test_many_workloads_without_a_change_give_no_false_alarm():
    alarms = 0
    for seed in range(20):
        many = {f"W{i}": rounds(1.0, 0.02, 10, 100 * seed + i) for i in range(12)}
        verdicts = [e.verdict for e in stats.judge(many, 0.0, 0.99).values()]
        alarms += any(v in (stats.SLOWER, stats.FASTER) for v in verdicts)
    assert alarms <= 2  # without a correction about one table in nine would have one


def test_holm_goes_on_with_the_level_of_those_that_are_left():
    many = {f"clear{i}": rounds(1.3, 0.001, 12, i) for i in range(9)} | {"noisy": rounds(1.0, 0.2, 12, 42)}
    judged = stats.judge(many, MARGIN, 0.99)
    assert judged["clear0"].confidence == pytest.approx(1 - 0.01 / 10)
    assert judged["noisy"].confidence == pytest.approx(0.99)
