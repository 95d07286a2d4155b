# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The history as one HTML page that needs nothing else, and the same figures as PNG."""

import html
import string
from pathlib import Path

from . import Refused, figures, history, series
from .tables import seconds_text

TEMPLATE = Path(__file__).with_name("page.html")


def write_report(repo, history_directory, peers_directory, out, progress):
    """What was written, in a line."""
    machines = history.read_all(history_directory)
    if not machines:
        raise Refused(f"{history_directory} holds no records; measure with: perf/track/track run")
    out.mkdir(parents=True, exist_ok=True)
    dates = {r["commit"]: r["commit_date"] for records in machines.values() for r in records}
    order = repo.order(dates)
    sections, pngs = [], 0
    with progress.task("draw", len(machines)) as task:
        for i, (name, records) in enumerate(machines.items()):
            section = Section(f"m{i}", name, records, order, out)
            sections.append(section.html())
            pngs += section.pngs
            task.at(i + 1, name)
    sections.append(peers_html(series.peers(peers_directory)))
    page = out / "index.html"
    part = page.with_suffix(".part")
    template = string.Template(TEMPLATE.read_text())
    part.write_text(template.substitute(body="\n".join(sections), records=sum(map(len, machines.values()))))
    part.rename(page)
    return f"{page}, and {pngs} PNGs beside it"


def table(head, rows):
    """Cells are text."""
    line = lambda cells, tag: "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"
    body = "".join(line(r, "td") for r in rows)
    return f'<div class="scroll"><table><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>'


class Section:
    """Of one machine."""

    def __init__(self, prefix, name, records, order, out):
        self.prefix, self.name, self.records, self.order, self.out = prefix, name, records, order, out
        self.lines = series.lines(records, order)
        entries, self.last = series.latest(records)
        self.now = {n: series.make_point(self.last["commit"], n, e, e["rounds"]) for n, e in entries.items()}
        self.phases = {n.split("/")[0]: e["phases"] for n, e in entries.items()
                       if "phases" in e and e["threads"] == 1 and not series.of_sweep(n.split("/")[0])}
        self.pngs = 0

    def html(self):
        last, machine = self.last, self.last["machine"]
        facts = (f"{machine['cpu']}, {machine['cpus']} CPUs, microcode {machine['microcode']} · "
                 f"{last['isa']}, exp {last['exp']} · {last['build']['compiler']} · last record {last['date']}, "
                 f"commit {last['commit'][:12]}" + ("" if last["complete"] else " (stopped early)"))
        trends = [self._trend(w) for w in self._workloads()]
        overview = [f for f in (self._roofline(), self._length(), self._phases()) if f]
        return (f'<section><h2>{html.escape(self.name)}</h2><p class="muted">{html.escape(facts)}</p>'
                f'<h3>Where it stands</h3><div class="grid wide">{"".join(overview)}</div>'
                f'<h3>Over commits</h3><div class="grid">{"".join(trends)}</div>'
                f'<h3>Latest figures</h3>{self._table()}</section>')

    def _figure(self, kind, name, make, label):
        svg = figures.as_svg(make(figures.PAGE), f"{self.prefix}-{name}", html.escape(label, quote=True))
        figures.save_png(make, self.out / f"{self.name}-{name}")
        self.pngs += 2
        return f'<figure data-kind="{kind}" data-name="{name}">{svg}</figure>'

    def _workloads(self):
        return list(dict.fromkeys(w for w, _, _ in self.lines if not series.of_sweep(w)))

    def _trend(self, workload):
        mine = {k: v for k, v in self.lines.items() if k[0] == workload}
        configs = {config for _, _, config in mine}
        named = []
        for (_, threads, config), line in sorted(mine.items(), key=lambda item: str(item[0])):
            label = f"{threads} thread{'s' * (threads > 1)}"
            named.append((label + (f", {', '.join(config)}" if len(configs) > 1 else ""), line))
        what = named[0][1][-1].model["what"].partition(", ")[2]
        make = lambda theme: figures.trend(theme, workload, what, named, self.order)
        return self._figure("trend", workload, make, f"GFLOP/s of {workload} over commits")

    def _single(self):
        return [(n.split("/")[0], p) for n, p in self.now.items() if p.model["threads"] == 1]

    def _roofline(self):
        points = [(n, p) for n, p in self._single() if not series.of_sweep(n)]
        bandwidth = self.last["bandwidth_gbs"].get("1")
        if not points or not bandwidth:
            return None
        peak = max(p.peak for _, p in points)
        make = lambda theme: figures.roofline(theme, points, peak, bandwidth)
        return self._figure("roofline", "roofline", make, "Speed over arithmetic intensity, below the machine's limits")

    def _length(self):
        by_size = {}
        for name, p in self._single():
            if series.of_sweep(name):
                by_size.setdefault(p.model["head_size"], []).append((p.model["len"], p.share))
        if not by_size:
            return None
        make = lambda theme: figures.peak_over_length(theme, by_size)
        return self._figure("length", "length", make, "Share of the peak over sequence length, per head size")

    def _phases(self):
        if not self.phases:
            return None
        make = lambda theme: figures.phases(theme, self.phases)
        return self._figure("phases", "phases", make, "Share of the time per phase")

    def _table(self):
        head = ["workload", "time", "interval", "GFLOP/s", "share of peak", "GB/s", "share of bandwidth"]
        head += ["MFMA", "Mexp", "MB"]
        counted = any(p.counters for p in self.now.values())
        if counted:
            head += ["cycles", "instructions per cycle"]
        rows = []
        for name, p in self.now.items():
            bandwidth = self.last["bandwidth_gbs"].get(str(p.model["threads"]))
            span = f"{seconds_text(p.low)} - {seconds_text(p.high)}" if p.low else "too few rounds"
            row = [name, seconds_text(p.seconds), span, f"{p.gflops(p.seconds):.1f}", f"{p.share:.2f}", f"{p.gbs:.2f}",
                   f"{p.gbs / bandwidth:.2f}" if bandwidth else "", f"{p.model['fmas'] / 1e6:.0f}",
                   f"{p.model['exps'] / 1e6:.2f}", f"{p.model['bytes'] / 1e6:.1f}"]
            if counted:
                c = p.counters
                row += [f"{c['cycles']:.4g}", f"{c['instructions'] / c['cycles']:.2f}"] if c else ["", ""]
            rows.append(row)
        note = f'<p class="muted">Hardware counters: {html.escape(self.last["hardware_counters"])}</p>'
        return table(head, rows) + note


def peers_html(tables):
    parts = ["<section><h2>Against other engines</h2>"]
    if not tables:
        parts.append("<p>No comparison with other engines has been measured yet: perf/peers/run</p>")
    for name, rows in tables.items():
        engines = list(dict.fromkeys(e for cell in rows.values() for e in cell if e not in ("attn", "FMA peak")))
        lines = []
        for (threads, workload), cell in rows.items():
            own = series.number(cell["attn"]["median_ms"]) if "attn" in cell else 0
            line = [f"{workload}, {threads} thread{'s' * (threads > 1)}", seconds_text(own / 1e3) if own else ""]
            for engine in engines:
                other = series.number(cell[engine]["median_ms"]) if engine in cell else 0
                ratio = f" ({other / own:.2f}x)" if own and other else ""
                line.append(f"{seconds_text(other / 1e3)}{ratio}" if other else "")
            if own:
                lines.append(line)
        parts.append(f"<p class=\"muted\">{html.escape(name)}: median time of one call; in brackets, how many times "
                     f"attn's.</p>{table(['workload', 'attn', *engines], lines)}")
    return "".join(parts) + "</section>"
