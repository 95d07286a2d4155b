# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""Worker processes, of which only the one that is asked something may run: all others are stopped, so
that no idle thread of one engine that spins for work takes time from another."""

import ctypes
import os
import select
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """The worker said what is wrong with what it was asked."""


class Died(Exception):
    """The worker is gone."""


class Process:
    def __init__(self, command, environment, cpus, log):
        self.log = log
        libc = ctypes.CDLL(None)

        def in_child():
            os.sched_setaffinity(0, cpus)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for compare.py, which keeps what it has
            # A stopped worker could not even notice that its pipe was closed.
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        with open(log, "wb") as errors:
            self.child = subprocess.Popen(
                command, env={**os.environ, **environment}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, bufsize=0, preexec_fn=in_child)
        self.buffer = b""

    def send(self, line):
        os.kill(self.child.pid, signal.SIGCONT)
        try:
            self.child.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise Died(self.last_words()) from None

    def receive(self, timeout):
        """The reply, without its "ok"; then the worker is stopped."""
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [], left)[0]:
                self.close()
                raise Died(f"no answer within {timeout:.0f} s")
            some = os.read(self.child.stdout.fileno(), 65536)
            if not some:
                raise Died(self.last_words())
            self.buffer += some
        os.kill(self.child.pid, signal.SIGSTOP)
        line, _, self.buffer = self.buffer.partition(b"\n")
        reply = line.decode(errors="replace")
        if reply != "ok" and not reply.startswith("ok "):
            raise Failed(reply)
        return reply[3:]

    def ask(self, line, timeout=900):
        self.send(line)
        return self.receive(timeout)

    def run(self, slot, seconds):
        """Samples, shortest and median call in seconds."""
        count, best, median = self.ask(f"run {slot} {seconds}").split()
        return int(count), float(best), float(median)

    def last_words(self):
        self.close()
        with open(self.log, errors="replace") as file:
            lines = file.read().split("\n")
        said = [line for line in lines if line.strip()][-1:]
        return f"ended with status {self.child.returncode}" + "".join(f": {s[:200]}" for s in said)

    def close(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()


class Team:
    """Several workers of one thread each, running at once; speaks like a Process. What they do together
    counts as one: its time per call is that in which the team does one call's work."""

    def __init__(self, members):
        self.members = members

    def ask(self, line, timeout=900):
        return [member.ask(line, timeout) for member in self.members][0]

    def run(self, slot, seconds):
        for member in self.members:
            member.send(f"run {slot} {seconds}")
        replies = [member.receive(900).split() for member in self.members]
        together = [1 / sum(1 / float(reply[i]) for reply in replies) for i in (1, 2)]
        return sum(int(reply[0]) for reply in replies), *together

    def close(self):
        for member in self.members:
            member.close()
