# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""attn_perf of a revision, built from a work tree of its own, always in the same way.

Programs are kept in build-track/, by commit, compiler and options. All paths have the same length
for the two sides of a comparison: it moves the stack, and with it the speed."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from . import Refused

RECIPE = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DATTN_PERF=ON",
    "-DATTN_TESTS=OFF",
    "-DATTN_CLI=OFF",
    "-DATTN_INSTALL=OFF",
]


def compiler_version():
    compiler = os.environ.get("CC", "cc")
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as fault:
        raise Refused(f"the compiler {compiler} does not run: {fault}") from fault
    return done.stdout.splitlines()[0]


class Builder:
    def __init__(self, repo, progress):
        self.repo = repo
        self.progress = progress
        self.directory = repo.root / "build-track"

    def build(self, commit, options=()):
        """Path of the program."""
        text = "\n".join([compiler_version(), *RECIPE, *options])
        key = f"{commit[:16]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        program = self.directory / key / "attn_perf"
        with self._locked(key):
            if not program.exists():
                self._build(commit, options, key, program)
        return program

    @contextlib.contextmanager
    def _locked(self, key):
        self.directory.mkdir(exist_ok=True)
        with open(self.directory / f"{key}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _build(self, commit, options, key, program):
        program.parent.mkdir(parents=True, exist_ok=True)
        log = self.directory / f"{key}.log"
        work = self.directory / f"{key}.tree"
        with self.progress.task(f"build {commit[:12]}", 100) as task, open(log, "w") as out:
            try:
                with self.repo.worktree(commit, work):
                    source = [f"-S{work}", f"-B{work}/build-it"]
                    self._step(["cmake", *source, *RECIPE, *options], commit, out, task)
                    jobs = f"-j{len(os.sched_getaffinity(0))}"
                    build = ["cmake", "--build", f"{work}/build-it", "--target", "attn_perf", jobs]
                    self._step(build, commit, out, task)
                    shutil.copy2(f"{work}/build-it/perf/attn_perf", f"{program}.part")
            except FileNotFoundError as fault:
                raise Refused(f"building {commit[:12]} failed: {fault}; see {log}") from fault
        Path(f"{program}.part").rename(program)

    @staticmethod
    def _step(command, commit, out, task):
        out.write(" ".join(map(str, command)) + "\n")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as step:
            for line in step.stdout:
                out.write(line)
                done = re.match(r"\[ *(\d+)%\]", line)
                if done:
                    task.at(int(done[1]))
        if step.returncode != 0:
            out.flush()
            raise Refused(f"building {commit[:12]} failed: {_first_error(out.name)}; see {out.name}")


def _first_error(log):
    lines = Path(log).read_text(errors="replace").splitlines()
    for line in lines:
        if re.search(r"\berror\b|CMake Error", line, re.IGNORECASE):
            return line.strip()
    return lines[-1].strip() if lines else "no output"
