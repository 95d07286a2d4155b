# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""From samples to verdicts. docs/performance-tracking.md says why these statistics.

A round is one pair of fresh processes, and gives one number: the median over its ABBA blocks of the
logarithm of time(HEAD) / time(BASE). Rounds are the independent observations."""

import dataclasses
import math

import numpy as np
from scipy import stats

FASTER, SLOWER, SAME = "faster", "slower", "same"
UNDECIDED = "not enough evidence"
TRIM = 0.2  # of the rounds at either end: processes that came out unlucky
RESAMPLES = 9999
LEAST_ROUNDS = 8  # below, no interval can be trusted


@dataclasses.dataclass
class Estimate:
    """A ratio of times with its confidence interval. Above 1: HEAD takes longer."""

    ratio: float
    low: float
    high: float
    confidence: float
    rounds: int
    verdict: str = UNDECIDED

    @property
    def width(self):
        return self.high - self.low


def block_log(first_base, first_head, second_head, second_base):
    """Of one ABBA block of times. A drift that is linear over the block cancels."""
    return 0.5 * (
        math.log(first_head) + math.log(second_head)
        - math.log(first_base) - math.log(second_base)
    )


def interval(values, confidence):
    """Trimmed mean and its interval: the wider, at either end, of the percentile bootstrap (which
    follows skewed data) and Tukey and McLaughlin's t interval (which is honest for few rounds)."""
    values = np.asarray(values, dtype=float)
    centre = float(stats.trim_mean(values, TRIM))
    if len(values) < LEAST_ROUNDS:
        return centre, -math.inf, math.inf
    if np.ptp(values) == 0:
        return centre, centre, centre
    boot = stats.bootstrap(
        (values,),
        lambda x, axis: stats.trim_mean(x, TRIM, axis=axis),
        confidence_level=confidence,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    t_low, t_high = stats.mstats.trimmed_mean_ci(values, (TRIM, TRIM), alpha=1 - confidence)
    return centre, float(min(boot.low, t_low)), float(max(boot.high, t_high))


def estimate(logs, confidence):
    centre, low, high = interval(logs, confidence)
    return Estimate(
        math.exp(centre),
        math.exp(low) if low > -math.inf else 0.0,
        math.exp(high) if high < math.inf else math.inf,
        confidence,
        len(logs),
    )


def verdict(e, margin):
    """By the whole interval. Times within a factor of 1 + margin count as the same."""
    most, least = 1 + margin, 1 / (1 + margin)
    if e.low > most:
        return SLOWER
    if e.high < least:
        return FASTER
    if e.low >= least and e.high <= most:
        return SAME
    return UNDECIDED


def judge(rounds, margin, confidence):
    """{name: logs of the rounds} to {name: Estimate}. Holm's step-down over the workloads: each is
    judged by an interval of confidence 1 - alpha / (workloads not decided yet), so that the chance
    of any wrong verdict in the table stays below alpha."""
    alpha, result, left = 1 - confidence, {}, list(rounds)
    while left:
        level = 1 - alpha / len(left)
        for name in left:
            result[name] = estimate(rounds[name], level)
            result[name].verdict = verdict(result[name], margin)
        still = [name for name in left if result[name].verdict == UNDECIDED]
        if len(still) == len(left):
            break
        left = still
    return result
