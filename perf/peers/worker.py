# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""A long-lived process that keeps one engine and its prepared cases: the Python side of worker.h.

    python worker.py ENGINE DIRECTORY THREADS

started by compare.py, which speaks to it line by line. Calls are timed here, as a user of the engine
would make them from Python; that is said in the report.
"""

import importlib
import math
import os
import statistics
import sys
import time

import numpy as np

# As in worker.c: the two must measure alike.
BATCH_SECONDS = 50e-6
LONG_CALL = 0.3
MAX_SAMPLES = 4096
LINE = 16  # floats


class Unsupported(Exception):
    """The engine has no such operation: a gap, with this reason."""


class Slot:
    def __init__(self, call, result):
        self.call, self.result, self.last = call, result, 0.0

    def time_calls(self, calls):
        call = self.call
        start = time.perf_counter()
        for _ in range(calls):
            call()
        self.last = (time.perf_counter() - start) / calls
        return self.last

    def run(self, seconds):
        """How many samples, the shortest and the median, in seconds per call."""
        if self.last < LONG_CALL:
            self.time_calls(1)
        calls = 1
        while self.last * calls < BATCH_SECONDS and calls < 1 << 20:
            calls *= 2
            self.time_calls(calls)
        samples, start = [], time.perf_counter()
        while len(samples) < MAX_SAMPLES:
            samples.append(self.time_calls(calls))
            if time.perf_counter() - start >= seconds:
                break
        return len(samples), min(samples), statistics.median(samples)


class Worker:
    def __init__(self, engine, directory, threads):
        self.engine, self.directory, self.threads = engine, directory, threads
        self.slots = {}

    def read(self, name, *shape):
        """Begins at a cache line, as engines allocate: no row is split that need not be."""
        count = math.prod(shape)
        room = np.empty(count + LINE - 1, np.float32)
        first = -room.ctypes.data // room.itemsize % LINE
        array = room[first:first + count]
        with open(f"{self.directory}/{name}.f32", "rb") as file:
            if file.readinto(array) != array.nbytes or file.read(1):
                raise ValueError(f"{name}.f32 does not hold {count} floats")
        return array.reshape(shape)

    def prepare(self, slot, line):
        kind, count, rest = line.split(" ", 2)
        *sizes, form = rest.split(" ", int(count))
        self.slots.pop(slot, None)
        sizes = [int(size) for size in sizes]
        call, result = self.engine.prepare(kind, form, sizes, self.read, self.threads)
        call()  # compiles, where that happens at the first call
        self.slots[slot] = Slot(call, result)

    def write(self, slot, name):
        """After a run; engines whose results are kept nowhere call once more."""
        np.ascontiguousarray(self.slots[slot].result(), np.float32).tofile(f"{self.directory}/{name}.f32")

    def answer(self, line):
        command, _, rest = line.partition(" ")
        if command == "version":
            return self.engine.version()
        if command == "forms":
            return "\t".join(self.engine.forms(rest))
        if command == "release":
            self.slots.clear()
            return ""
        slot, _, rest = rest.partition(" ")
        if command == "prepare":
            self.prepare(int(slot), rest)
            return ""
        if command == "run":
            count, best, median = self.slots[int(slot)].run(float(rest))
            return f"{count} {best:.9g} {median:.9g}"
        if command == "result":
            self.write(int(slot), rest)
            return ""
        raise ValueError(f"no such command: {command}")


def main():
    # What an engine prints must not get between the replies.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    name, directory, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    engine = importlib.import_module(f"engine_{name}")
    engine.start(threads)
    worker = Worker(engine, directory, threads)
    for line in sys.stdin:
        try:
            reply = "ok " + worker.answer(line.rstrip("\n"))
        except Exception as error:  # whatever an engine throws is its gap, not the end of the run
            kind = "" if isinstance(error, Unsupported) else type(error).__name__ + ": "
            reply = kind + " ".join(str(error).split())[:300]
        replies.write(reply + "\n")


if __name__ == "__main__":
    # Engines import Unsupported from `worker`: that must be this module, not a second copy.
    sys.modules["worker"] = sys.modules["__main__"]
    main()
