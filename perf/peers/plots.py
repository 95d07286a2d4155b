# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The plots: share of the peak by workload and engine, time of small work, share over length."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from names import ATTN, PEERS, TITLES
from report import cases_of
from workloads import SWEEP_HEADS, SWEEP_SIZES

COLOURS = {ATTN: "#c1272d", "torch": "#4c72b0", "openvino": "#8172b3", "onnxruntime": "#55a868",
           "jax": "#ccb974", "onednn": "#7f7f7f"}
MOST_IN_A_ROW = 10  # workloads
PANELS = (("attention", "P"), ("layer", "L"), ("projection", "G"), ("decode", "D"), ("small work", "S"))


def write(stem, facts, run):
    written = []
    for threads in facts["threads"]:
        if cases_of(run, threads):
            written.append(bars(f"{stem}_{threads}.png", facts, run, threads))
        if cases_of(run, threads, sweep=True):
            written.append(sweep(f"{stem}_sweep.png", facts, run, threads))
    return written


def title(facts, threads):
    return f"{facts['cpu']}, {threads} thread{'s' * (threads > 1)}, {facts['date']}"


def bars(path, facts, run, threads):
    cases = cases_of(run, threads)
    panels = [(name, [c for c in cases if c.panel == family]) for name, family in PANELS]
    panels = [(name, members) for name, members in panels if members]
    names = [name for name in (ATTN, *PEERS) if any(r.engine == name for r in run.rows)]
    lines = rows_of(panels)
    figure = plt.figure(figsize=(12, 3.6 * len(lines)), layout="constrained")
    for part, line in zip(figure.subfigures(len(lines), 1, squeeze=False)[:, 0], lines):
        axes = part.subplots(1, len(line), squeeze=False, width_ratios=[max(2, len(m)) for _, m in line])
        for axis, (name, members) in zip(axes[0], line):
            draw_panel(axis, run, threads, names, members, small=name == "small work")
            axis.set_title(name)
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[name]) for name in names]
    figure.legend(handles, [TITLES[name] for name in names], loc="outside lower center",
                  ncols=len(names), frameon=False)
    figure.suptitle(title(facts, threads))
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def rows_of(panels):
    """Panels side by side, as many as can be read at the width of a page."""
    lines, room = [], 0
    for name, members in panels:
        if len(members) > room:
            lines.append([])
            room = MOST_IN_A_ROW
        lines[-1].append((name, members))
        room -= max(2, len(members))
    return lines


def draw_panel(axis, run, threads, names, cases, small):
    """Small work is shown in microseconds: it is calls that count there, not operations."""
    names = [name for name in names if any(run.best_form(threads, case, name) for case in cases)]
    width = 0.84 / max(1, len(names))
    for i, name in enumerate(names):
        for x, case in enumerate(cases):
            row = run.best_form(threads, case, name)
            if not row:
                continue
            value = row.seconds * 1e6 if small else run.share(row)
            place = x + (i - (len(names) - 1) / 2) * width
            axis.bar(place, value, 0.92 * width, color=COLOURS[name])
            if name == ATTN or small:
                label = f"{value:.3g}" if small else f"{value:.2f}"
                axis.annotate(label, (place, value), ha="center", va="bottom", fontsize=8)
    axis.set_xticks(range(len(cases)), [f"{c.name}\n{wrap(c.shape)}" for c in cases], fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    if small:
        axis.set_yscale("log")
        axis.set_ylabel("µs per call, less is better")
    else:
        axis.set_ylim(0, 1.05)
        axis.axhline(1, color="black", linewidth=0.8)
        memory = any(case.from_memory for case in cases)
        axis.set_ylabel(f"share of the {'bandwidth' if memory else 'FMA peak'}, best call")


def wrap(shape):
    """Two halves of a shape, one below the other."""
    words = shape.split(" ")
    half = (len(words) + 1) // 2
    return " ".join(words[:half]) + "\n" + " ".join(words[half:])


def sweep(path, facts, run, threads):
    cases = cases_of(run, threads, sweep=True)
    sizes = [d for d in SWEEP_SIZES if any(c.sizes[4] == d for c in cases)]
    figure, axes = plt.subplots(1, len(sizes), figsize=(4.2 * len(sizes), 4), sharey=True, squeeze=False,
                                layout="constrained")
    for axis, d in zip(axes[0], sizes):
        for name in (ATTN, "torch", "openvino"):
            rows = [run.best_form(threads, case, name) for case in cases if case.sizes[4] == d]
            points = [(row.case.sizes[3], run.share(row)) for row in rows if row]
            if points:
                axis.plot(*zip(*points), marker="o", markersize=4, color=COLOURS[name],
                          label=TITLES[name], linewidth=2.2 if name == ATTN else 1.4)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_title(f"head size {d}, {SWEEP_HEADS} heads")
        axis.set_xlabel("length T")
        axis.set_ylim(0, 1.05)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("share of the FMA peak, best call")
    axes[0][0].legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.95))
    figure.suptitle(title(facts, threads))
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
