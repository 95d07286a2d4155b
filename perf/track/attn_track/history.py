# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""The history: perf/history/FINGERPRINT.jsonl, one JSON object a line, only ever appended to.

A writer holds the file's lock, writes its line at once and waits for the disk. What a crash leaves
is a last line without its end; the next writer moves it to FILE.torn and says so. Anything else
that cannot be read is refused by file and line: it was not a crash of ours."""

import contextlib
import fcntl
import json
import os
import sys
from pathlib import Path

from . import Refused

SCHEMA = 1
REQUIRED = ["schema", "commit", "date", "machine", "build", "workloads", "complete"]


def append(directory, name, record):
    """Path of the file written to."""
    line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.jsonl"
    with _locked(path, fcntl.LOCK_EX) as file:
        content = _read_all(file)
        whole = _repair(path, file, content)
        _parse(path, content[:whole])
        _write(file, line)
    _sync_directory(directory)
    return path


def read(path):
    """Records of a file, oldest first. A torn last line is left out, and named on standard error."""
    with _locked(path, fcntl.LOCK_SH) as file:
        content = _read_all(file)
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        _say(f"{path}: the last line is torn ({len(content) - whole} bytes) and left out; "
             "the next run repairs it")
    return _parse(path, content[:whole])


def read_all(directory):
    """{fingerprint: records} of every machine that has any."""
    found = {p.stem: read(p) for p in sorted(Path(directory).glob("*.jsonl"))}
    return {name: records for name, records in found.items() if records}


@contextlib.contextmanager
def _locked(path, how):
    writes = how == fcntl.LOCK_EX
    file = os.open(path, (os.O_RDWR | os.O_CREAT | os.O_APPEND) if writes else os.O_RDONLY, 0o644)
    try:
        fcntl.flock(file, how)
        yield file
    finally:
        os.close(file)


def _read_all(file):
    parts, at = [], 0
    while part := os.pread(file, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _repair(path, file, content):
    """Sets a torn last line aside. Bytes of the file that are left."""
    whole = content.rfind(b"\n") + 1
    torn = content[whole:]
    if torn:
        with open(f"{path}.torn", "ab") as aside:
            aside.write(torn + b"\n")
            aside.flush()
            os.fsync(aside.fileno())
        os.ftruncate(file, whole)
        _say(f"{path}: the last line was torn; its {len(torn)} bytes are now in {path}.torn")
    return whole


def _write(file, line):
    while line:
        line = line[os.write(file, line):]
    os.fsync(file)


def _sync_directory(directory):
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parse(path, content):
    return [_parse_line(f"{path}:{n}", line)
            for n, line in enumerate(content.splitlines(), 1)]


def _parse_line(where, line):
    try:
        record = json.loads(line)
    except ValueError as fault:
        raise Refused(f"{where}: not a JSON object ({fault}); restore the line from git") from fault
    if not isinstance(record, dict):
        raise Refused(f"{where}: not a JSON object; restore the line from git")
    missing = [f for f in REQUIRED if f not in record]
    if missing:
        raise Refused(f"{where}: the record lacks {', '.join(missing)}")
    if record["schema"] != SCHEMA:
        raise Refused(f"{where}: schema {record['schema']}, this program knows {SCHEMA}")
    return record


def _say(text):
    print(f"track: {text}", file=sys.stderr)
