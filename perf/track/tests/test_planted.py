# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The real engine, as last committed: a planted slow-down is found, the same twice is not one."""

import json
import subprocess

import pytest
from conftest import TRACK, run_git

ROOT = TRACK.parents[1]
PLANT = "--cmake-head=-DATTN_PLANT_SLOWDOWN=10"
NAMES = ["P1/f32/threads:1", "P2/f32/threads:1", "L1/f32/threads:1"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Clean whatever the tree is like; what was built is kept beside the tree."""
    directory = tmp_path_factory.mktemp("clone") / "attn"
    run_git(ROOT, "clone", "-q", str(ROOT), str(directory))
    (ROOT / "build-track").mkdir(exist_ok=True)
    (directory / "build-track").symlink_to(ROOT / "build-track")
    return directory


def compare(clone, tmp_path, *more):
    out = tmp_path / "out.json"
    command = [TRACK / "track", "--repo", clone, "compare", "HEAD", "HEAD", "--workloads", "P1,P2,L1", "--width", "0.04",
               "--time-limit", "150", "--quiet", "--json", out, *more]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    verdicts = {n: w["verdict"] for n, w in json.loads(out.read_text())["workloads"].items()}
    assert list(verdicts) == NAMES
    return done.returncode, list(verdicts.values()), done.stdout


def test_a_planted_slow_down_is_called_slower(clone, tmp_path):
    status, verdicts, table = compare(clone, tmp_path, PLANT)
    if set(verdicts) == {"not enough evidence"}:
        pytest.skip("the machine is too noisy to tell: no workload got enough evidence")
    assert status == 1 and "slower" in verdicts, table
    assert set(verdicts) <= {"slower", "not enough evidence"}, table


def test_the_same_revision_twice_is_not(clone, tmp_path):
    status, verdicts, table = compare(clone, tmp_path)
    assert status == 0 and set(verdicts) <= {"same", "not enough evidence"}, table


class Perf:
    """attn_perf --serve, by hand."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = json.loads(self.process.stdout.readline())

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)


def build(clone, *options):
    from attn_track.build import Builder
    from attn_track.progress import Bars
    from attn_track.repo import Repo

    repo = Repo(clone)
    return Builder(repo, Bars(quiet=True)).build(repo.resolve("HEAD"), options)


def test_the_work_model_and_the_protocol(clone):
    perf = Perf(build(clone))
    model = {w["name"]: w for w in perf.about["workloads"]}
    p2, l2 = model["P2"], model["L2"]
    pairs = 12 * 1024 * 1025 // 2
    assert p2["exps"] == pairs and p2["fmas"] == 2 * 64 * pairs and p2["flops"] == 2 * p2["fmas"]
    assert p2["bytes"] == 4 * 4 * 12 * 1024 * 64
    attention = 2 * 32 * 4 * 1024 * 1025 // 2
    assert l2["fmas"] == attention + 4 * 1024 * 128 * 128
    assert perf.about["hardware_counters"] == "cycles, instructions" or \
        perf.about["hardware_counters"].startswith("unavailable: perf_event_open: ")
    answer = perf.ask("sample P1/f32/threads:1 3")
    assert len(answer["wall"]) == len(answer["cpu"]) == 3 and min(answer["cpu"]) > 0
    assert ("cycles" in answer) == (perf.about["hardware_counters"] == "cycles, instructions")
    assert "phases" not in answer and perf.about["phases"] is False
    gflops = 1e-9 * model["P1"]["flops"] / min(answer["cpu"])
    assert 0.02 < gflops / perf.ask("peak 1")["gflops"] < 1.5
    assert perf.ask("bandwidth 1")["gbs"] > 0.1
    for request, fault in (("sample P9/f32/threads:1 1", "no such benchmark: P9"), ("sample P1/f32/threads:0 1", "no such"),
                           ("sample P1/f32/threads:1 0", "allowed are 1 to"), ("peak 0", "allowed are 1 to"),
                           ("nonsense", "unknown request: nonsense")):
        assert fault in perf.ask(request)["error"]
    assert perf.close() == 0


def test_phases_by_a_build_flag(clone):
    perf = Perf(build(clone, "-DATTN_PHASES=ON"))
    assert perf.about["phases"] is True
    attention = perf.ask("sample P2/f32/threads:1 5")["phases"]
    layer = perf.ask("sample L3/f32/threads:1 2")["phases"]
    for shares in (attention, layer):
        assert sum(shares.values()) == pytest.approx(1, abs=0.01)
        assert all(0 <= share <= 1 for share in shares.values())
        assert shares["scores"] > 0.05 and shares["values"] > 0.05 and shares["softmax"] > 0.01
    assert attention["projections"] == 0 and layer["projections"] > 0.3
    assert attention["rest"] < 0.3
    assert perf.close() == 0
