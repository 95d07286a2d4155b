# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The report in a real browser, from a file, without a network. Screenshots: build-track/screenshots."""

import re
from pathlib import Path

import pytest
from conftest import TRACK, made_record
from selenium import webdriver

from attn_track import history

SHOTS = TRACK.parents[1] / "build-track" / "screenshots"
TREND = ["P1", "P2", "L1", "D1"]
NAMES = [f"{w}/f32/threads:{t}" for t in (1, 2) for w in TREND]
SWEEP = [f"D{d}T{t}/f32/threads:1" for d in (32, 64, 128) for t in (64, 256, 1024)]
COMMITS = 6


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    from attn_track import cli

    root = tmp_path_factory.mktemp("report")
    for i in range(COMMITS):
        speed = 0.8 if i == 4 else 1 + 0.03 * i
        last = i == COMMITS - 1
        r = made_record(f"{(i + 17) * 7919 << 136:040x}", f"2026-01-{i + 1:02}T00:00:00+00:00", speed, NAMES + SWEEP, i,
                        rounds=3 if i == 2 else 9, phases=last, counters=last)
        history.append(root / "history", "test-machine", r)
    other = made_record("5" * 40, "2026-01-03T00:00:00+00:00", 1, NAMES[:1], 1, cpu="Other <CPU>")
    history.append(root / "history", "other-machine", other)
    peers = root / "peers"
    peers.mkdir()
    (peers / "test.tsv").write_text(
        "threads\tworkload\tengine\tform\trounds\tmedian_ms\n1\tP1\tattn\t\t9\t2.0\n"
        "1\tP1\tother-engine\ta\t9\t6.0\n1\tP1\tother-engine\tb\t9\t5.0\n1\tP1\tgap-engine\t\t0\t-\n")
    out = root / "out"
    assert cli.main(["report", "--history", str(root / "history"), "--out", str(out), "--peers", str(peers)]) == 0
    return out


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions",
                           {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0})
    yield driver
    driver.quit()


def show(browser, report, width, scheme, name):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                            {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get(f"file://{report}/index.html")
    height = browser.execute_script("return document.documentElement.scrollHeight")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics | {"height": height})
    SHOTS.mkdir(parents=True, exist_ok=True)
    assert browser.save_screenshot(str(SHOTS / f"{name}.png"))


# The element that ends with this id: how many shapes it holds, whether they are seen, and their colour.
SHAPES = """
const found = [...document.querySelectorAll(`[id$="${arguments[0]}"]`)];
if (found.length !== 1) return {found: found.length};
const shapes = [...found[0].querySelectorAll('path, use')].filter(s => !s.closest('defs'));
const visible = shapes.filter(s => { const r = s.getBoundingClientRect(); return r.width + r.height > 0; });
const style = shapes.length ? getComputedStyle(shapes[0]) : {};
return {found: 1, shapes: shapes.length, visible: visible.length, stroke: style.stroke, fill: style.fill};
"""


def drawn(browser, gid):
    got = browser.execute_script(SHAPES, gid)
    assert got["found"] == 1, gid
    assert got["visible"] == got["shapes"] > 0, gid
    return got


@pytest.mark.parametrize("width, scheme, name", [(1280, "light", "light"), (1280, "dark", "dark"), (375, "light", "phone")])
def test_everything_is_drawn(browser, report, width, scheme, name):
    show(browser, report, width, scheme, name)
    text = browser.find_element("tag name", "body").text
    for workload in TREND:
        for line in (0, 1):
            drawn(browser, f"m1-{workload}-line-{workload}-{line}")
            assert drawn(browser, f"m1-{workload}-points-{workload}-{line}")["shapes"] == COMMITS
            # The commit with 3 rounds has no interval.
            assert drawn(browser, f"m1-{workload}-bars-{workload}-{line}")["shapes"] == COMMITS - 1
    drawn(browser, "m1-roofline-roof")
    assert drawn(browser, "m1-roofline-roofline-attention")["shapes"] == 2
    for kind in ("layer", "cached"):
        assert drawn(browser, f"m1-roofline-roofline-{kind}")["shapes"] == 1
    for size in (32, 64, 128):
        drawn(browser, f"m1-length-length-{size}")
    drawn(browser, "m1-phases-phase-softmax")
    svg_text = browser.execute_script("return [...document.querySelectorAll('svg text')].map(t => t.textContent).join('|')")
    for label in ("P1: made up", "peak 96 GFLOP/s", "memory 12.0 GB/s", "head size 128", "2 threads", "softmax"):
        assert label in svg_text
    assert "Other <CPU>" in text and "instructions per cycle" in text
    assert "unavailable: perf_event_open: made up" in text  # the other machine: said, not hidden
    assert "5.000 ms (2.50x)" in text and "6.000 ms" not in text and "gap-engine" not in text


def test_a_drop_is_drawn_below_its_neighbours(browser, report):
    show(browser, report, 1280, "light", "light")
    y = browser.execute_script(
        "return [...document.querySelectorAll('[id$=\"m1-P1-points-P1-0\"] use')].map(u => u.getBoundingClientRect().y)")
    assert y[4] > y[3] and y[4] > y[5] and y[0] > y[3]


def test_nothing_overflows_and_phones_get_one_column(browser, report):
    for width in (320, 375, 1280):
        show(browser, report, width, "light", f"width-{width}")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        tops = browser.execute_script(
            "return [...document.querySelectorAll('figure')].map(f => f.getBoundingClientRect().left)")
        assert (len({round(x) for x in tops}) == 1) == (width < 500)
        smallest = browser.execute_script(
            "return Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))")
        assert smallest >= 7


def test_light_and_dark_differ_and_can_be_read(browser, report):
    seen = {}
    for scheme in ("light", "dark"):
        show(browser, report, 1280, scheme, scheme)
        seen[scheme] = browser.execute_script("""
            const style = e => getComputedStyle(e);
            return {back: style(document.body).backgroundColor, text: style(document.querySelector('svg text')).fill,
                    line: style(document.querySelector('[id$="m1-P1-line-P1-0"] path')).stroke}""")
    for part in ("back", "text", "line"):
        assert seen["light"][part] != seen["dark"][part]
    for scheme, colours in seen.items():
        assert contrast(colours["back"], colours["text"]) > 7, scheme
        assert contrast(colours["back"], colours["line"]) > 3, scheme


def contrast(a, b):
    """WCAG 2.2."""
    def luminance(colour):
        parts = [int(n) / 255 for n in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


def test_the_page_needs_nothing_else(browser, report):
    show(browser, report, 1280, "light", "light")
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    page = (report / "index.html").read_text()
    assert not re.search(r'(src|href)="(?!#)', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_the_pngs_are_pictures(report):
    pngs = {p.name for p in report.glob("*.png")}
    for what in ("roofline", "length", "phases", *TREND):
        for theme in ("light", "dark"):
            assert f"test-machine-{what}-{theme}.png" in pngs
    assert all(Path(report / p).read_bytes().startswith(b"\x89PNG") for p in pngs)
