# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The table, as TSV with every form, and as Markdown to read."""

from names import ATTN, CONTIGUOUS, PEERS, TEAM, TITLES
from measure import ISAS, MEMORY, ratios

AVX512_ALLOWANCE = 0.05  # by which a share on a narrower set may be lower
ERROR_GOAL, SCALING_GOAL = 1.2, 0.95


def write(stem, facts, run):
    with open(stem + ".tsv", "w") as file:
        file.write(tsv(run))
    with open(stem + ".md", "w") as file:
        file.write(markdown(stem, facts, run))
    return [stem + ".tsv", stem + ".md"]


# ---- TSV ----

COLUMNS = ("threads workload shape engine form rounds samples best_ms median_ms gflops share_best "
           "share_median draws error_rms error_max kv_gbs note").split()


def tsv(run):
    lines = [COLUMNS]
    for row in run.rows:
        note = "" if row.rounds else "slower than another form of this engine: one call, no rounds"
        lines.append([
            row.threads, row.case.name, row.case.shape, row.engine, row.form, row.rounds, row.samples,
            f"{row.shortest * 1e3:.6g}", f"{row.seconds * 1e3:.6g}",
            f"{row.case.flops / row.shortest / 1e9:.4g}", share_cell(run, row, f"{run.share(row):.3f}"),
            share_cell(run, row, f"{run.share_median(row):.3f}") if row.rounds else "-",
            len(row.largest), f"{row.error_rms:.3g}", f"{row.error_max:.3g}", gbs_cell(row), note])
    for gap in run.gaps:
        lines.append([gap.threads, gap.case or "all", "", gap.engine, gap.form, 0, 0,
                      *["-"] * 9, gap.reason])
    for (threads, case, isa), values in run.peaks.items():
        head, most = [threads, case, ""], f"{max(values):.4g}"
        counts = [len(values), len(values), "-", "-"]
        if isa == MEMORY:
            lines.append([*head, "bandwidth", "", *counts, *["-"] * 6, most, "the best of several readers"])
        else:
            lines.append([*head, "FMA peak", isa, *counts, most, *["-"] * 6, "multiply-adds in registers"])
    return "".join("\t".join(map(str, line)) + "\n" for line in lines)


# ---- pieces ----

def milliseconds(seconds):
    ms = seconds * 1e3
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}" if ms >= 0.1 else f"{ms:.2g}"


def gbs_cell(row):
    return f"{row.case.kv_bytes / row.shortest / 1e9:.3g}" if row.case.cached else "-"


def share_cell(run, row, text):
    """None is said of what the caches hold."""
    return "-" if row.case.cached and not row.case.from_memory else text


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines) + "\n"


def cases_of(run, threads, sweep=False):
    seen = []
    for row in run.rows:
        if row.threads == threads and row.case not in seen and (row.case.family == "sweep") == sweep:
            seen.append(row.case)
    return seen


def best_peer(run, threads, case, names, key=lambda row: row.seconds):
    """The fastest form of all of these engines, None when none ran."""
    rows = [row for name in names for row in run.forms(threads, case, name)]
    return min(rows, key=key, default=None)


def mark(value, goal):
    return f"{value:.2f} {'✓' if value >= goal else '✗'}"


# ---- Markdown ----

def share_goal(case, isa):
    allowance = 0 if isa == "avx512" or case.from_memory else AVX512_ALLOWANCE
    return case.goal.share - allowance if case.goal.share else 0


def goal_cell(run, case, ours, threads):
    """What the goals say about this case: those of one thread; what is read from memory, of any number."""
    goal, cells = case.goal, []
    if threads > 1 and not case.from_memory:
        return ""
    if goal.share:
        wanted = share_goal(case, run.isa)
        cells.append(f"share ≥ {wanted:.2f} {'✓' if run.share(ours) >= wanted else '✗'}")
    if threads > 1:
        return "; ".join(cells)
    contiguous = run.best_form(threads, case, CONTIGUOUS) if goal.contiguous else None
    if contiguous:
        cells.append(f"without pages ≥ {goal.contiguous:g}: {mark(ratios(ours, contiguous)[0], goal.contiguous)}")
    if goal.ratio:
        names = goal.rivals or tuple(PEERS)
        rival = best_peer(run, threads, case, names)
        against = " to " + "/".join(TITLES[name].split(",")[0] for name in goal.rivals) if goal.rivals else ""
        cells.append(f"ratio{against} ≥ {goal.ratio:g}: " +
                     (mark(ratios(ours, rival)[0], goal.ratio) if rival else "no rival ran"))
    if goal.microseconds:
        cells.append(f"call ≤ {goal.microseconds:g} µs: {ours.seconds * 1e6:.2f} "
                     f"{'✓' if ours.seconds * 1e6 <= goal.microseconds else '✗'}")
    return "; ".join(cells)


def main_table(run, threads):
    return rows_table(run, threads, [c for c in cases_of(run, threads) if not c.cached],
                      ["GFLOP/s", "share of peak"], lambda row: f"{row.case.flops / row.shortest / 1e9:.3g}")


def decode_table(run, threads):
    return rows_table(run, threads, [c for c in cases_of(run, threads) if c.cached],
                      ["GB/s of K and V", "share of bandwidth"], gbs_cell)


def rows_table(run, threads, cases, measures, speed):
    """attn's speed and its share of the limit, under the names `measures`, and the best peer."""
    rows = []
    for case in cases:
        ours = run.best_form(threads, case, ATTN)
        if not ours:
            continue
        rival = best_peer(run, threads, case, PEERS)
        shortest = best_peer(run, threads, case, PEERS, key=lambda row: row.shortest)
        shares = (share_cell(run, ours, f"{share:.2f}") for share in (run.share(ours), run.share_median(ours)))
        theirs = [f"{TITLES[rival.engine]}: {rival.form}", milliseconds(rival.shortest),
                  milliseconds(rival.seconds), speed(rival),
                  f"{ratios(ours, rival)[0]:.2f}",
                  f"{ratios(ours, shortest)[1]:.2f} {TITLES[shortest.engine].split(',')[0]}"] if rival else ["-"] * 6
        rows.append([case.name, case.shape, milliseconds(ours.shortest), milliseconds(ours.seconds),
                     speed(ours), *shares, *theirs, goal_cell(run, case, ours, threads)])
    head = ["workload", "shape", "attn ms, best", "median", measures[0], f"{measures[1]}, best", "median",
            "best peer", "its ms, best", "median", measures[0], "ratio, median", "of bests", "goals"]
    return rows and table(head, rows)


def engines_table(run, threads):
    names = [name for name in (ATTN, *PEERS) if any(r.engine == name for r in run.rows)]
    rows = []
    for case in cases_of(run, threads):
        ours, cells = run.best_form(threads, case, ATTN), []
        for name in names:
            row = run.best_form(threads, case, name)
            cell = milliseconds(row.seconds) if row else "-"
            if row and ours and row is not ours:
                cell += f" ({ratios(ours, row)[0]:.2f})"
            cells.append(cell)
        rows.append([case.name, *cells])
    return table(["ms, median"] + [TITLES[name] for name in names], rows)


def scaling_table(run, threads):
    rows = []
    for case in cases_of(run, threads):
        ours, team = run.best_form(threads, case, ATTN), run.best_form(threads, case, TEAM)
        if ours and team:
            median, bests = ratios(ours, team)
            rows.append([case.name, milliseconds(ours.seconds), milliseconds(team.seconds),
                         mark(median, SCALING_GOAL), f"{bests:.2f}"])
    head = ["workload", f"ms with {threads} threads", f"ms per call of {threads} processes",
            "ratio, median", "of bests"]
    return rows and table(head, rows)


def errors_table(run, threads):
    rows = []
    for case in cases_of(run, threads):
        ours, torch = (run.best_form(threads, case, name) for name in (ATTN, "torch"))
        if not ours or not torch:
            continue
        pairs = (ours.error_rms, torch.error_rms), (ours.error_max, torch.error_max)
        cells = []
        for a, b in pairs:
            ratio = f"{a / b:.2f} " if b else ""
            cells += [f"{a:.2e}", f"{b:.2e}", ratio + ("✓" if a <= ERROR_GOAL * b else "✗")]
        rows.append([case.name, len(ours.largest), *cells])
    return rows and table(["workload", "draws", "rms, attn", "PyTorch", f"ratio, ≤ {ERROR_GOAL}",
                           "max, attn", "PyTorch", f"ratio, ≤ {ERROR_GOAL}"], rows)


def narrower_table(run, threads):
    rows = []
    for row in run.rows:
        if row.threads == threads and row.isa and row.rounds:
            wanted = share_goal(row.case, row.isa)
            goal = f"≥ {wanted:.2f} {'✓' if run.share(row) >= wanted else '✗'}" if wanted else ""
            rows.append([f"{row.case.name}, {row.isa}", milliseconds(row.shortest),
                         f"{run.share(row):.2f}", f"{run.share_median(row):.2f}", goal])
    return rows and table(["workload", "ms, best", "share of that set's peak, best", "median", "goal"], rows)


def sweep_table(run, threads):
    rows = []
    for case in cases_of(run, threads, sweep=True):
        forms = [run.best_form(threads, case, name) for name in (ATTN, "torch", "openvino")]
        rows.append([case.name] + [f"{run.share(row):.3f}" if row else "-" for row in forms])
    return rows and table(["share of peak, best", "attn", "PyTorch", "OpenVINO"], rows)


def gaps_list(run):
    """The same reason once, with all workloads that it concerns."""
    reasons = {}
    for gap in run.gaps:
        key = (TITLES[gap.engine] + (f", {gap.form}" if gap.form else ""), gap.reason)
        threads = f"{gap.case or 'all workloads'} ({gap.threads} thread{'s' * (gap.threads > 1)})"
        reasons.setdefault(key, []).append(threads)
    lines = [f"- {name}: {reason}. {', '.join(dict.fromkeys(where))}\n"
             for (name, reason), where in reasons.items()]
    return "".join(lines) or "None.\n"


def peaks_line(run, threads):
    peaks = [f"{isa} {run.peak(threads, isa):.1f}" for isa in ISAS if run.peak(threads, isa)]
    said = [f"FMA peak {', '.join(peaks)} GFLOP/s"] if peaks else []
    if run.peak(threads, MEMORY):
        said.append(f"read from memory {run.peak(threads, MEMORY):.1f} GB/s")
    return "Measured all along this run: " + "; ".join(said) + ".\n\n" if said else ""


HOW = """All engines compute in float32 from the same inputs and take turns, a slot of {slot:g} s each (at least one
call, after one that is not counted), {rounds} rounds, every round beginning with another engine; while one runs, the
processes of all others are stopped. With one thread every process is pinned to the same CPU. *best* is the shortest
sample of all rounds, *median* that of the rounds' medians; *ratio* is how many times as long as attn the
peer takes: the median of the ratios within each round; of the bests, that of the peer with the shortest call, which may
be another one. On a shared machine single ratios move by up to a fifth from run to run. *share of peak*: of the multiply-adds in
registers that the machine reaches on attn's instruction set: by the best call and the highest peak of the run, and as the
median over the rounds of the share of the peak right before, which is the greater one where the peak was low then. Operations are those of visible pairs only. *GB/s of K and V*
counts every key and value once, however often an engine reads it; *share of bandwidth* is of what the same threads
read of as many bytes of memory by the best of several loops (1, 2 and 4 streams, with and without prefetching), measured before every round;
by the best call it is that of the highest of these rounds.
D3 and its kin stay in the caches. No peer has pages: PyTorch's D5 is its D2. What it costs to let a cache grow is in no figure.

attn and oneDNN are called from C, the others from Python as their users would: for S0 and S1 that is a part of what is
compared. Every engine has its best form and memory layout: forms that took {margin:g} times as long as the engine's fastest
at first sight were not timed again (rounds 0 in the TSV), and calls that last long and are far behind were timed in fewer
rounds. Every result was checked against float64, for attention on 256 rows, for layers on one sequence.
"""


def markdown(stem, facts, run):
    from measure import FORM_MARGIN

    name = stem.rpartition("/")[2]
    versions = ", ".join(f"{TITLES[k]} {v}" for k, v in facts["versions"].items() if k != TEAM)
    parts = [
        f"# attn and other engines on {facts['cpu']}, {facts['date']}\n\n",
        f"attn at {facts['revision']}, instruction set {facts['isa']}. {versions}. {facts['cpus']} CPUs; "
        f"load average before and after: {facts['load'][0]}, {facts['load'][1]}.\n\n",
        "**Stopped before its end**: the workloads that were finished until then.\n\n" * facts["stopped"],
    ]
    for threads in facts["threads"]:
        if not cases_of(run, threads) and not cases_of(run, threads, sweep=True):
            continue
        parts += [f"## {threads} thread{'s' * (threads > 1)}\n\n", peaks_line(run, threads)]
        if cases_of(run, threads):
            parts += [f"![Share of peak by workload and engine]({name}_{threads}.png)\n\n",
                      main_table(run, threads) or "", decode_table(run, threads) or "",
                      "All engines, each in its fastest form; in brackets how many times as long as attn:\n\n",
                      engines_table(run, threads)]
        optional = [
            ("Threads against as many processes of one thread, each with the whole work, that run at once:",
             scaling_table(run, threads)),
            ("Errors on the same inputs, of all draws:", errors_table(run, threads)),
            ("Narrower instruction sets:", narrower_table(run, threads)),
        ]
        for title, text in optional:
            parts += [title + "\n\n", text] if text else []
        if cases_of(run, threads, sweep=True):
            parts += [f"![Share of peak over length]({name}_sweep.png)\n\n", sweep_table(run, threads)]
    parts += ["## Gaps\n\n", gaps_list(run), "\n## How it was measured\n\n",
              HOW.format(**facts, margin=FORM_MARGIN)]
    return "".join(parts)


def summary(facts, run):
    """A few lines for the terminal."""
    lines = []
    for threads in facts["threads"]:
        for case in cases_of(run, threads):
            ours = run.best_form(threads, case, ATTN)
            rival = best_peer(run, threads, case, PEERS)
            if ours:
                against = f"{ratios(ours, rival)[0]:6.2f} x {TITLES[rival.engine]}" if rival else ""
                share = share_cell(run, ours, f"{run.share(ours):.2f}")
                lines.append(f"{threads} {case.name:7} {ours.seconds * 1e3:10.4f} ms  share {share:4}  {against}")
    return "\n".join(lines)
