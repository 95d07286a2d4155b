# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""Histories and repositories made up for the tests."""

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

TRACK = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TRACK))

FAKE = Path(__file__).with_name("fake_attn_perf.py")


def run_git(directory, *arguments):
    names = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    environment = dict(os.environ, **dict.fromkeys(names, "test"))
    done = subprocess.run(["git", "-C", str(directory), *arguments], env=environment, check=True,
                          capture_output=True, text=True)
    return done.stdout.strip()


class FakeRepo:
    """A git repository whose attn_perf is fake_attn_perf.py: builds in no time, tells made-up times."""

    def __init__(self, root):
        self.root = root
        run_git(root, "init", "-q", "-b", "main")
        (root / "engine").mkdir()
        (root / "perf").mkdir()
        (root / "perf" / "serve.c").write_text("")
        (root / ".gitignore").write_text("/build*/\n")
        (root / "fake.py").write_text(f"#!{sys.executable} -SE\n{FAKE.read_text()}")
        (root / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.21)\nproject(fake LANGUAGES NONE)\n"
            "set(program ${CMAKE_BINARY_DIR}/perf/attn_perf)\n"
            "file(READ ${CMAKE_SOURCE_DIR}/engine/facts FACTS)\n"
            "configure_file(${CMAKE_SOURCE_DIR}/fake.py ${program} @ONLY FILE_PERMISSIONS OWNER_READ OWNER_EXECUTE)\n"
            "add_custom_target(attn_perf)\n")

    def commit(self, subject, **facts):
        """facts: speed (a factor on all times), workloads (names), serve (False: an old program)."""
        (self.root / "engine" / "facts").write_text(repr(facts))
        return self.commit_files(subject)

    def commit_files(self, subject):
        run_git(self.root, "add", ".")
        run_git(self.root, "commit", "-q", "--allow-empty", "-m", subject)
        return run_git(self.root, "rev-parse", "HEAD")


@pytest.fixture
def fake_repo(tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    return FakeRepo(root)


@pytest.fixture
def track(fake_repo, monkeypatch, capsys):
    """Runs a command on the fake repository: (exit status, standard output, standard error)."""
    from attn_track import cli, compare, measure

    monkeypatch.setattr(compare, "ROUND_SECONDS", 0.02)
    monkeypatch.setattr(measure, "ROUND_SECONDS", 0.02)

    def run(*arguments):
        status = cli.main(["--repo", str(fake_repo.root), *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


KINDS = {"P": "attention", "D": "attention", "L": "layer", "D1": "cached"}


def made_record(commit, date, speed, names, seed, complete=True, rounds=9, phases=False, counters=False,
                cpu="Test CPU 9000"):
    """A record as `track run` writes it, of made-up times."""
    rng = random.Random(seed)
    workloads = {}
    for name in names:
        short, threads = name.split("/")[0], int(name.rpartition(":")[2])
        size, length = map(int, short[1:].split("T")) if "T" in short else (64, 256 * int(short[1:]))
        flops = 4.0 * 12 * size * length * (length + 1) / 2
        entry = {"what": "attention, made up", "kind": KINDS[short if short == "D1" else short[0]],
                 "batch": 1, "heads": 12, "kv_heads": 12, "len": length, "head_size": size, "d_model": 0,
                 "flops": flops, "fmas": flops / 2, "exps": 1e6, "bytes": 4.0 * 4 * 12 * size * length,
                 "threads": threads, "rounds": []}
        base = flops / (1e9 * speed * threads * 60 * (1 - math.exp(-length / 200)))
        for _ in range(rounds):
            times = [base * math.exp(rng.gauss(0, 0.01)) for _ in range(5)]
            one = {"wall": times, "cpu": times, "peak_gflops": 96.0 * threads}
            if counters:
                one |= {"cycles": base * 3e9, "instructions": base * 9e9}
            entry["rounds"].append(one)
        if phases:
            entry["phases"] = {"scores": 0.4, "softmax": 0.2, "values": 0.35, "projections": 0.0, "packing": 0.03,
                               "rest": 0.02}
        workloads[name] = entry
    return {"schema": 1, "date": date, "commit": commit, "commit_date": date, "subject": "made up",
            "complete": complete,
            "machine": {"architecture": "x86_64", "cpu": cpu, "identity": ["Test"], "microcode": "0x1",
                        "cpus": 2, "last_cache_kib": 32768, "kernel": "6"},
            "build": {"compiler": "GNU 12.2.0 Release", "flags": "-O3", "attn_version": "0.1.0", "sleef": "3.5.1"},
            "isa": "avx2", "exp": "inline",
            "hardware_counters": "cycles, instructions" if counters else "unavailable: perf_event_open: made up",
            "bandwidth_gbs": {"1": 12.0, "2": 20.0}, "workloads": workloads}
