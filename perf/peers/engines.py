# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The engines, and how each is started on a number of threads."""

import os
import sys

from names import ATTN, TEAM
from oracle import Wrong
from process import Died, Failed, Process, Team

HERE = os.path.dirname(os.path.abspath(__file__))
C_WORKERS = {ATTN: "attn_worker", TEAM: "attn_worker", "onednn": "onednn_worker"}


def cpus_for(threads):
    """The last ones: interrupts prefer the first."""
    return sorted(os.sched_getaffinity(0))[-threads:]


def environment(build, threads):
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "PYTHONPATH": HERE,
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(build, "inductor"),
    }


class Engine:
    """One engine on one number of threads. A worker that dies is started again at the next case."""

    def __init__(self, name, threads, directory, build):
        self.name, self.threads = name, threads
        self.directory, self.build = directory, build
        self.worker = None
        self.version = ""

    def start_one(self, threads, cpus, number=0):
        if self.name in C_WORKERS:
            command = [os.path.join(self.build, C_WORKERS[self.name])]
            if not os.path.exists(command[0]):
                raise Died("its worker was not built: the library is not installed")
        else:
            command = [sys.executable, os.path.join(HERE, "worker.py"), self.name]
        log = os.path.join(self.build, f"{self.name}{number or ''}.log")
        command += [self.directory, str(threads)]
        return Process(command, environment(self.build, threads), cpus, log)

    def start(self):
        """Died, when there is no such engine here."""
        if self.worker:
            return
        cpus = cpus_for(self.threads)
        if self.name == TEAM:
            worker = Team([self.start_one(1, [cpu], i) for i, cpu in enumerate(cpus)])
        else:
            worker = self.start_one(self.threads, cpus)
        self.version = worker.ask("version")
        self.worker = worker

    def forms(self, kind):
        said = self.worker.ask(f"forms {kind}")
        return said.split("\t") if said else []

    def prepare(self, slot, case, form):
        sizes = " ".join(map(str, case.sizes))
        self.worker.ask(f"prepare {slot} {case.kind} {len(case.sizes)} {sizes} {form}")

    def guarded(self, action):
        """(result, None), or (None, why not)."""
        try:
            self.start()
            return action(), None
        except (Failed, Wrong) as error:
            return None, str(error)
        except (Died, OSError) as error:
            self.close()
            return None, str(error)

    def close(self):
        if self.worker:
            self.worker.close()
        self.worker = None
