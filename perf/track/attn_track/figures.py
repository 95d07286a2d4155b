# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The figures, by matplotlib: as SVG that takes its colours from the page, and as PNG."""

import dataclasses
import io
import re

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # noqa: E402

WIDE, SMALL = (4.2, 3.0), (3.5, 2.3)  # inches: text stays readable when a phone shows it at full width
PHASES = ["scores", "softmax", "values", "projections", "packing", "rest"]


@dataclasses.dataclass(frozen=True)
class Theme:
    text: str
    grid: str
    series: tuple
    background: str = "none"


LIGHT = Theme("#1c2430", "#d5dae1", ("#1663ad", "#b8480f", "#1f7a49", "#7b3fa3", "#7a6a00", "#69727d"), "#ffffff")
DARK = Theme("#e4e8ee", "#3a424d", ("#6cb4f0", "#f59a66", "#63cf95", "#c79bea", "#d9c34a", "#98a2ae"), "#14181e")
# Colours that occur nowhere else, to be replaced by the page's own (see as_svg).
PAGE = Theme("#010203", "#040506", tuple(f"#0a0b0{i}" for i in range(6)))
IN_PAGE = {PAGE.text: "currentColor", PAGE.grid: "var(--grid)"} | {
    colour: f"var(--series-{i})" for i, colour in enumerate(PAGE.series)}

matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.linewidth": 0.8,
                            "font.family": "DejaVu Sans"})


def _axes(theme, size, title):
    figure = Figure(figsize=size, layout="constrained", facecolor=theme.background)
    axes = figure.add_subplot(facecolor="none")
    axes.set_title(title, color=theme.text, fontsize=9.5, loc="left")
    axes.tick_params(colors=theme.text, which="both", labelsize=8)
    axes.grid(True, color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_color(theme.text)
        spine.set_visible(side in ("left", "bottom"))
    return figure, axes


def _legend(axes, theme, **options):
    axes.legend(fontsize=7.5, labelcolor=theme.text, frameon=False, **options)


def trend(theme, workload, what, named_lines, order):
    """GFLOP/s over commits, oldest left, with intervals. Hollow: too few rounds for one."""
    figure, axes = _axes(theme, SMALL, f"{workload}: {what}")
    commits = [c for c in order if any(p.commit == c for _, line in named_lines for p in line)]
    place = {c: i for i, c in enumerate(commits)}
    top = 0
    for i, (label, line) in enumerate(named_lines):
        colour = theme.series[i % len(theme.series)]
        x = [place[p.commit] for p in line]
        y = [p.gflops(p.seconds) for p in line]
        drawn = axes.plot(x, y, color=colour, linewidth=1.4, label=label)[0]
        drawn.set_gid(f"line-{workload}-{i}")
        sure = [p for p in line if p.low is not None]
        bars = axes.vlines([place[p.commit] for p in sure], [p.gflops(p.high) for p in sure],
                           [p.gflops(p.low) for p in sure], color=colour, linewidth=2.2, alpha=0.55)
        bars.set_gid(f"bars-{workload}-{i}")
        faces = [colour if p.low is not None else "none" for p in line]
        points = axes.scatter(x, y, s=16, c=faces, edgecolors=colour, zorder=3)
        points.set_gid(f"points-{workload}-{i}")
        top = max([top, *y, *(p.gflops(p.low) for p in sure)])
    axes.set_ylim(0, 1.12 * top)
    axes.set_xlim(-0.5, len(commits) - 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(
        lambda x, _: commits[int(x)][:7] if x == int(x) and 0 <= x < len(commits) else ""))
    axes.set_ylabel("GFLOP/s", color=theme.text, fontsize=8)
    if len(named_lines) > 1:
        _legend(axes, theme, loc="lower left")
    return figure


def roofline(theme, points, peak, bandwidth):
    """GFLOP/s over arithmetic intensity; `points` is [(name, Point)]."""
    figure, axes = _axes(theme, WIDE, "Roofline, one thread")
    ridge = peak / bandwidth
    intensities = [p.intensity for _, p in points]
    left, right = min([ridge, *intensities]) / 2.5, max([ridge, *intensities]) * 2.5
    roof = axes.plot([left, ridge, right], [left * bandwidth, peak, peak], color=theme.text, linewidth=1.3)[0]
    roof.set_gid("roof")
    axes.annotate(f"peak {peak:.0f} GFLOP/s", (right, peak), ha="right", va="bottom", fontsize=7.5,
                  color=theme.text, xytext=(0, 2), textcoords="offset points")
    axes.annotate(f"memory {bandwidth:.1f} GB/s", (left, left * bandwidth), fontsize=7.5, color=theme.text,
                  xytext=(8, 0), textcoords="offset points", va="bottom")
    for i, kind in enumerate(("attention", "layer", "cached")):
        some = [(n, p) for n, p in points if p.model["kind"] == kind]
        if not some:
            continue
        dots = axes.scatter([p.intensity for _, p in some], [p.gflops(p.seconds) for _, p in some], s=20,
                            color=theme.series[i], label=kind, zorder=3)
        dots.set_gid(f"roofline-{kind}")
        for name, p in some:
            axes.annotate(name, (p.intensity, p.gflops(p.seconds)), fontsize=7.5, color=theme.text,
                          xytext=(4, -9 if kind == "attention" else 3), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(min([left * bandwidth, *(0.6 * p.gflops(p.seconds) for _, p in points)]), peak * 1.6)
    axes.set_xlabel("FLOP per byte that must be moved", color=theme.text, fontsize=8)
    axes.set_ylabel("GFLOP/s", color=theme.text, fontsize=8)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axis.set_minor_formatter(NullFormatter())
    _legend(axes, theme, loc="lower right")
    return figure


def peak_over_length(theme, by_size):
    """{head size: [(T, share of peak)]}"""
    figure, axes = _axes(theme, WIDE, "Share of the multiply-add peak over length")
    lengths = sorted({t for line in by_size.values() for t, _ in line})
    for i, (size, line) in enumerate(sorted(by_size.items())):
        drawn = axes.plot(*zip(*sorted(line)), color=theme.series[i % len(theme.series)], marker="o", markersize=4,
                          linewidth=1.4, label=f"head size {size}")[0]
        drawn.set_gid(f"length-{size}")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 1)
    axes.set_xlabel("T, tokens", color=theme.text, fontsize=8)
    axes.set_ylabel("share of peak", color=theme.text, fontsize=8)
    _legend(axes, theme, loc="lower right")
    return figure


def phases(theme, shares):
    """{workload: {phase: share of the time}}"""
    figure, axes = _axes(theme, (4.2, 0.9 + 0.24 * len(shares)), "Where the time goes")
    names = list(shares)[::-1]
    left = [0.0] * len(names)
    for i, phase in enumerate(PHASES):
        widths = [shares[n].get(phase, 0.0) for n in names]
        bars = axes.barh(names, widths, left=left, color=theme.series[i], height=0.7, label=phase)
        bars[0].set_gid(f"phase-{phase}")
        left = [a + b for a, b in zip(left, widths)]
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:g} %"))
    axes.grid(False, axis="y")
    axes.legend(fontsize=7.5, labelcolor=theme.text, frameon=False, ncols=6, loc="upper left",
                bbox_to_anchor=(-0.12, -0.16 - 0.25 / len(names)), columnspacing=0.7, handlelength=0.8, handletextpad=0.4)
    return figure


def as_svg(figure, prefix, label):
    """Markup for the page. Ids get the prefix, for several figures share the page."""
    with matplotlib.rc_context({"svg.hashsalt": prefix}):
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    for colour, page in IN_PAGE.items():
        svg = svg.replace(colour, page)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def save_png(make, path):
    """`make` draws in a theme. Writes path-light.png and path-dark.png."""
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        make(theme).savefig(f"{path}-{name}.png", dpi=160)
