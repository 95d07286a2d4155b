# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The one table of a comparison, and the same as data."""

from rich.console import Console
from rich.table import Table

from . import stats
from .serve import clock_of

STYLE = {stats.FASTER: "green", stats.SLOWER: "bold red", stats.SAME: "", stats.UNDECIDED: "yellow"}


def seconds_text(s):
    return f"{s:.3f} s" if s >= 1 else f"{1e3 * s:.3f} ms" if s >= 1e-3 else f"{1e6 * s:.1f} us"


def print_comparison(comparison, console=None):
    limits = comparison.limits
    table = Table(title=f"{comparison.head.label} against {comparison.base.label}", title_justify="left")
    for name, justify in (("workload", "left"), ("clock", "left"), ("base", "right"), ("head", "right"),
                          ("time ratio", "right"), ("interval", "left"), ("rounds", "right"),
                          ("verdict", "left")):
        table.add_column(name, justify=justify, no_wrap=True)
    for name, e in comparison.estimates().items():
        if e.rounds < stats.LEAST_ROUNDS:
            cells = ["", "", "", "", str(e.rounds), f"[yellow]{e.verdict}[/]"]
        else:
            base, head = map(seconds_text, comparison.typical_times(name))
            style = STYLE[e.verdict]
            mark = f"[{style}]{e.verdict}[/]" if style else e.verdict
            cells = [base, head, f"{e.ratio:.4f}", f"{e.low:.4f} - {e.high:.4f}", str(e.rounds), mark]
        table.add_row(name, clock_of(name), *cells)
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=140)
    console.print(table)
    console.print(f"Above 1: head is slower. Within {100 * limits.margin:g} %: same. No verdict of the table "
                  f"is wrong, with confidence {100 * limits.confidence:g} % (Holm).", highlight=False)


def as_data(comparison):
    return {
        "base": comparison.base.commit,
        "head": comparison.head.commit,
        "interrupted": comparison.interrupted,
        "margin": comparison.limits.margin,
        "confidence": comparison.limits.confidence,
        "workloads": {
            name: {
                "clock": clock_of(name), "ratio": e.ratio, "rounds": e.rounds, "verdict": e.verdict,
                "interval": [e.low, e.high] if e.rounds >= stats.LEAST_ROUNDS else None,
                "interval_confidence": e.confidence, "raw": comparison.rounds[name],
            }
            for name, e in comparison.estimates().items() if e.rounds
        },
    }
