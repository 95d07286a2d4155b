# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors

import json
import subprocess
import sys

import pytest
from conftest import TRACK, made_record

from attn_track import Refused, history, machine

NAMES = ["P1/f32/threads:1"]


def record(i):
    return made_record(f"{i:040x}", f"2026-01-{i + 1:02}T00:00:00+00:00", 1, NAMES, i)


def commits(path):
    return [int(r["commit"], 16) for r in history.read(path)]


def test_records_come_back_in_order(tmp_path):
    for i in range(3):
        path = history.append(tmp_path / "new", "m", record(i))
    assert commits(path) == [0, 1, 2]
    assert history.read(path)[2] == record(2)
    assert list(history.read_all(tmp_path / "new")) == ["m"]


@pytest.mark.parametrize("kept", [1, 40, -1])  # bytes of the last line that reached the disk
def test_a_torn_last_line_is_left_out_then_repaired_by_name(tmp_path, capsys, kept):
    history.append(tmp_path, "m", record(0))
    path = history.append(tmp_path, "m", record(1))
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    torn = content[:first] + content[first:][:kept]
    path.write_bytes(torn)
    assert commits(path) == [0]
    assert f"{path}: the last line is torn" in capsys.readouterr().err
    assert path.read_bytes() == torn  # reading changes nothing
    history.append(tmp_path, "m", record(2))
    said = capsys.readouterr().err
    assert str(path) in said and f"{path}.torn" in said
    assert commits(path) == [0, 2]
    assert (tmp_path / "m.jsonl.torn").read_bytes() == torn[first:] + b"\n"


@pytest.mark.parametrize("line, why", [
    (b'{"schema": 1, "comm', "not a JSON object"), (b"[1]", "not a JSON object"), (b"", "not a JSON object"),
    (b'{"schema": 1}', "the record lacks commit"),
    (json.dumps(record(7) | {"schema": 99}).encode(), "schema 99"),
])
def test_damage_elsewhere_is_refused_by_file_and_line(tmp_path, line, why):
    path = history.append(tmp_path, "m", record(0))
    with open(path, "ab") as file:
        file.write(line + b"\n")
    damaged = path.read_bytes() + json.dumps(record(2)).encode() + b"\n"
    path.write_bytes(damaged)
    for action in (lambda: history.read(path), lambda: history.append(tmp_path, "m", record(3))):
        with pytest.raises(Refused) as refusal:
            action()
        assert f"{path}:2: " in str(refusal.value) and why in str(refusal.value)
    assert path.read_bytes() == damaged


def test_numbers_that_json_has_not_are_not_written(tmp_path):
    history.append(tmp_path, "m", record(0))
    with pytest.raises(ValueError):
        history.append(tmp_path, "m", record(1) | {"bandwidth_gbs": {"1": float("nan")}})
    assert commits(tmp_path / "m.jsonl") == [0]


WRITER = """
import sys
sys.path[:0] = [{track!r}, {tests!r}]
from pathlib import Path
from conftest import made_record
from attn_track import history
first = int(sys.argv[1])
for i in range(first, first + 25):
    r = made_record(f"{{i:040x}}", "2026-01-01T00:00:00+00:00", 1, ["P1/f32/threads:1"] * 1, i, rounds=40)
    history.append(Path(sys.argv[2]), "m", r)
"""


def test_several_writers_lose_nothing(tmp_path):
    code = WRITER.format(track=str(TRACK), tests=str(TRACK / "tests"))
    writers = [subprocess.Popen([sys.executable, "-c", code, str(first), str(tmp_path)])
               for first in (0, 25, 50)]
    assert [w.wait(timeout=120) for w in writers] == [0, 0, 0]
    assert sorted(commits(tmp_path / "m.jsonl")) == list(range(75))


def test_the_fingerprint_is_of_the_kind_of_machine():
    here = machine.describe()
    assert machine.fingerprint(here) == machine.fingerprint(here | {"kernel": "other", "microcode": "other"})
    assert machine.fingerprint(here) != machine.fingerprint(here | {"cpus": here["cpus"] + 1})
