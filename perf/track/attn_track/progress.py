# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""Progress bars with the time left, on standard error; nothing but a last line where that is no
terminal."""

import contextlib

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class _Task:
    def __init__(self, bar, number):
        self.bar, self.number = bar, number

    def at(self, done, note="", total=None):
        self.bar.update(self.number, completed=done, total=total, note=note)


class Bars:
    def __init__(self, quiet=False):
        self.console = Console(stderr=True, quiet=quiet)

    @contextlib.contextmanager
    def task(self, what, total):
        columns = [
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        ]
        with Progress(*columns, console=self.console) as bar:
            yield _Task(bar, bar.add_task(what, total=total, note=""))
