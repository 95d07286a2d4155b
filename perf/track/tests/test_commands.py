# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The commands from outside, on a repository whose attn_perf tells made-up times on a noisy machine."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import TRACK, run_git

from attn_track import history

FAST = ["--quiet", "--width", "0.03", "--time-limit", "60"]


def fault(result):
    """The one line of a refusal."""
    status, out, err = result
    assert status == 2 and out == ""
    lines = [line for line in err.splitlines() if line.startswith("track: ")]
    assert len(lines) == 1
    return lines[0]


def compare(track, base, head, *more):
    return track("compare", base, head, "--workloads", "P1,P2", *FAST, *more)


@pytest.mark.parametrize("speed, status, verdict", [(1.1, 1, "slower"), (0.9, 0, "faster"), (1.0, 0, "same")])
def test_verdicts_and_exit_status(fake_repo, track, tmp_path, speed, status, verdict):
    base = fake_repo.commit("base", speed=1.0)
    head = fake_repo.commit("head", speed=speed)
    out = tmp_path / "out.json"
    got, table, _ = compare(track, base, "HEAD", "--json", out)
    assert got == status
    data = json.loads(out.read_text())
    assert (data["base"], data["head"]) == (base, head)
    for name in ("P1/f32/threads:1", "P2/f32/threads:1"):
        w = data["workloads"][name]
        assert w["verdict"] == verdict
        assert w["ratio"] == pytest.approx(speed, abs=0.02)
        assert w["interval"][0] < w["ratio"] < w["interval"][1]
        row = next(line for line in table.splitlines() if name in line)
        assert verdict in row and f"{w['ratio']:.4f}" in row


def test_the_same_revision_twice(fake_repo, track):
    fake_repo.commit("one")
    status, table, _ = compare(track, "HEAD", "HEAD")
    assert status == 0 and "slower" not in table.replace("head is slower", "") and "faster" not in table


def test_one_slower_workload_of_two_threads_is_enough(fake_repo, track):
    base = fake_repo.commit("base")
    fake_repo.commit("head", speed=1.3)
    status, table, _ = compare(track, base, "HEAD", "--threads", "2")
    assert status == 1 and "threads:2" in table and "wall" in table


def test_too_little_time_is_not_enough_evidence(fake_repo, track):
    base = fake_repo.commit("base")
    fake_repo.commit("head", speed=2)
    status, table, _ = track("compare", base, "HEAD", "--workloads", "P1", "--time-limit", "1", "--quiet",
                             "--width", "0.001", "--confidence", "0.9999")
    assert status in (0, 1)  # as many rounds as fit
    assert ("not enough evidence" in table) == (status == 0)


@pytest.mark.parametrize("side", [0, 1])
def test_unknown_revisions(fake_repo, track, side):
    fake_repo.commit("one")
    revisions = ["HEAD", "HEAD"]
    revisions[side] = "no-such"
    assert fault(compare(track, *revisions)) == "track: unknown revision: no-such"
    assert not (fake_repo.root / "build-track").exists()


def test_a_dirty_tree(fake_repo, track):
    fake_repo.commit("one")
    (fake_repo.root / "CMakeLists.txt").write_text("# changed\n")
    for arguments in (["compare", "HEAD", "HEAD"], ["run"]):
        assert fault(track(*arguments)) == "track: the tree is dirty: commit CMakeLists.txt first"
    assert not (fake_repo.root / "perf" / "history").exists()


def test_records_do_not_make_the_tree_dirty(fake_repo, track):
    fake_repo.commit("one")
    assert track("run", "--rounds", 1, "--quiet", "--workloads", "P*")[0] == 0
    fake_repo.commit_files("record")
    assert track("run", "--rounds", 1, "--quiet", "--workloads", "P1")[0] == 0
    assert track("run", "--rounds", 1, "--quiet", "--workloads", "P1")[0] == 0


def test_a_build_that_fails(fake_repo, track):
    base = fake_repo.commit("base")
    (fake_repo.root / "CMakeLists.txt").write_text("message(FATAL_ERROR planted)\n")
    head = fake_repo.commit_files("broken")
    line = fault(compare(track, base, "HEAD"))
    assert f"building {head[:12]} failed" in line and "CMake Error" in line
    log = line.rpartition("see ")[2]
    assert "planted" in open(log).read()
    assert run_git(fake_repo.root, "worktree", "list").count("\n") == 0
    assert "building" in fault(track("run", "--workloads", "P*"))
    assert not (fake_repo.root / "perf" / "history").exists()


@pytest.mark.parametrize("swap", [False, True])
def test_a_workload_in_only_one_of_the_two(fake_repo, track, tmp_path, swap):
    few = fake_repo.commit("few", workloads=["P1"])
    many = fake_repo.commit("many", workloads=["P1", "P2"])
    pair = (many, few) if swap else (few, many)
    out = tmp_path / "out.json"
    line = fault(compare(track, *pair, "--json", out))
    assert line == f"track: workload P2 exists only in {many[:12]}, not in {few[:12]}"
    assert not out.exists()


def test_other_bad_input(fake_repo, track):
    fake_repo.commit("one", wrong=["P2"])
    assert "no such workload: X9" in fault(track("compare", "HEAD", "HEAD", "--workloads", "X9", "--quiet"))
    assert "no such workload: X*" in fault(track("run", "--workloads", "X*", "--quiet"))
    assert "P2/f32/threads:1: wrong result" in fault(compare(track, "HEAD", "HEAD"))
    assert "wrong result" in fault(track("run", "--workloads", "P2", "--quiet"))
    assert "--threads: 0: allowed are" in fault(track("run", "--threads", "0"))
    assert "--margin: nan: allowed are" in fault(track("compare", "a", "b", "--margin", "nan"))
    assert "holds no records" in fault(track("report"))
    assert not (fake_repo.root / "perf" / "history").exists()


def test_an_older_attn_perf(fake_repo, track):
    base = fake_repo.commit("old", serve=False)
    fake_repo.commit("new")
    assert f"attn_perf of {base[:12]} ended at 'start': attn_perf: unknown argument" in fault(compare(track, base, "HEAD"))


def test_run_appends_a_record(fake_repo, track):
    commit = fake_repo.commit("one")
    status, out, _ = track("run", "--rounds", 3, "--quiet", "--workloads", "P*")
    assert status == 0 and "2 workloads of HEAD" in out and commit[:12] in out
    (records,) = history.read_all(fake_repo.root / "perf" / "history").values()
    (r,) = records
    assert r["commit"] == commit and r["complete"] and r["bandwidth_gbs"] == {"1": 10.0}
    for name in ("P1/f32/threads:1", "P2/f32/threads:1"):
        rounds = r["workloads"][name]["rounds"]
        assert len(rounds) == 3
        assert all(0.003 < t < 0.02 for one in rounds for t in one["cpu"] + one["wall"])
        assert rounds[0]["peak_gflops"] == 100
    for field in ("cpu", "microcode", "cpus"):
        assert r["machine"][field]
    for field in ("compiler", "flags"):
        assert field in r["build"]


def interrupt(repo, *arguments, after):
    """Status and output of a command that gets Ctrl-C."""
    command = [str(TRACK / "track"), "--repo", str(repo.root), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        time.sleep(after)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_ctrl_c_keeps_what_was_measured(fake_repo, track, tmp_path):
    fake_repo.commit("one", sleep=0.02)
    track("compare", "HEAD", "HEAD", "--time-limit", "1", "--quiet", "--workloads", "P1")  # builds
    status, out, _ = interrupt(fake_repo, "run", "--rounds", "500", "--workloads", "P*", after=10)
    assert status == 130 and "2 workloads" in out
    ((record,),) = history.read_all(fake_repo.root / "perf" / "history").values()
    assert not record["complete"]
    assert 1 <= len(record["workloads"]["P1/f32/threads:1"]["rounds"]) < 500
    kept = tmp_path / "kept.json"
    status, out, _ = interrupt(fake_repo, "compare", "HEAD", "HEAD", "--workloads", "P1,P2", "--width", "0.001",
                               "--json", str(kept), after=10)
    assert status == 130 and "P1/f32/threads:1" in out and "stopped" in out
    data = json.loads(kept.read_text())
    assert data["interrupted"] and data["workloads"]["P1/f32/threads:1"]["rounds"] >= 1


class TestGate:
    def test_slower_fails_and_names_the_workloads(self, fake_repo, track):
        fake_repo.commit("base")
        fake_repo.commit("head", speed=1.25)
        status, out, _ = track("gate", "--workloads", "P1,P2", "--quiet", "--time-limit", "60")
        assert status == 1 and out.rstrip().splitlines()[-1] == "perf gate: FAILED: 2 slower"

    def test_a_little_slower_passes(self, fake_repo, track):
        fake_repo.commit("base")
        fake_repo.commit("head", speed=1.04)
        status, out, _ = track("gate", "--workloads", "P1,P2", "--quiet", "--time-limit", "60")
        assert status == 0 and out.rstrip().splitlines()[-1] == "perf gate: passed: 2 same"

    def test_it_compares_with_where_main_was_left(self, fake_repo, track):
        fake_repo.commit("slow before", speed=3)
        main = fake_repo.commit("main")
        run_git(fake_repo.root, "update-ref", "refs/remotes/origin/main", main)
        fake_repo.commit("topic 1", speed=1.2)
        fake_repo.commit("topic 2", speed=1.21)
        status, out, _ = track("gate", "--workloads", "P1", "--quiet", "--time-limit", "60")
        assert status == 1 and main[:12] in out

    def test_unmeasured_is_said(self, fake_repo, track):
        fake_repo.commit("only one")
        status, out, _ = track("gate")
        assert status == 0 and "NOT MEASURED: HEAD has no parent" in out
        (fake_repo.root / "notes.md").write_text("docs\n")
        fake_repo.commit_files("docs")
        status, out, _ = track("gate")
        assert status == 0 and "NOT MEASURED: the engine is the same" in out
        assert not (fake_repo.root / "build-track").exists()

    def test_bad_input_fails(self, fake_repo, track):
        fake_repo.commit("one")
        fake_repo.commit("two", speed=2)
        (fake_repo.root / "fake.py").write_text("#")
        assert "dirty" in fault(track("gate"))
