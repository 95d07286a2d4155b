# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""A running `attn_perf --serve` (perf/serve.h), asked for samples."""

import json
import os
import select
import statistics
import subprocess
import time

from . import Refused

PATIENCE = 600  # seconds for one answer
SAMPLE_SECONDS = 0.015  # long against a timer interrupt, short against the moods of a machine
MOST_CALLS = 2000


class Server:
    """A context manager. `cpu`: the only processor it may use; None: all."""

    def __init__(self, program, label, arguments=(), cpu=None):
        self.label = label
        self.buffer = b""
        # Waiting OpenMP threads of one side must not disturb the other.
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", LC_ALL="C")
        allowed = os.sched_getaffinity(0)
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})  # inherited; set later it could miss a thread
        try:
            # A session of its own: Ctrl-C is for us, to keep what was measured.
            self.process = subprocess.Popen(
                [str(program), "--serve", *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=environment, start_new_session=True, bufsize=0,
            )
        finally:
            os.sched_setaffinity(0, allowed)
        self.about = self._answer("start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def _die(self, why):
        self.process.kill()
        said = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        raise Refused(f"attn_perf of {self.label} {why}" + (f": {said[-1]}" if said else ""))

    def _answer(self, request):
        end = time.monotonic() + PATIENCE
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            if not ready:
                self._die(f"gave no answer to '{request}' in {PATIENCE} s")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                self._die(f"ended at '{request}'")
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            self._die("cannot be asked for samples (it knows no --serve)")
        if "error" in answer:
            raise Refused(f"attn_perf of {self.label}: {answer['error']}")
        return answer

    def ask(self, request):
        try:
            self.process.stdin.write(request.encode() + b"\n")
        except BrokenPipeError:
            self._die(f"ended before '{request}'")
        return self._answer(request)

    def sample(self, name, calls):
        return self.ask(f"sample {name} {calls}")


def threads_of(name):
    return int(name.rpartition("threads:")[2])


def clock_of(name):
    """One thread is judged by its CPU time, which does not count what others ran in between;
    several by the wall, since they wait for one another."""
    return "cpu" if threads_of(name) == 1 else "wall"


def typical(answer, name):
    return statistics.median(answer[clock_of(name)])


def calls_for(seconds):
    return max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / max(seconds, 1e-9))))
